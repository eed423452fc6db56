package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// CodeNodeRunsLimit is the code of a run that a workflow's circle would not let
// end.
const CodeNodeRunsLimit = "NODE_RUNS_LIMIT"

// maxNodeRuns bounds how often the nodes of a workflow run, all together: a
// circle of nodes that ask no model is not bounded by model calls.
const maxNodeRuns = 1000

var errNodeRuns = errors.New("no node runs left")

// lane is the branch that a part of a workflow runs on, below the lane that it
// forked from.
type lane struct {
	branch string
	depth  int
	up     *lane
}

// meet is the lane that both forked from.
func meet(a, b *lane) *lane {
	for a != b {
		if a.depth < b.depth {
			a, b = b, a
		}
		a = a.up
	}
	return a
}

// task is a node that is to run, for the nth time in this run of the workflow.
type task struct {
	node, nth int
	lane      *lane
}

// outcome is what the edges of a node may ask for.
type outcome struct {
	task
	route any
	said  *session.Event
	// paused says that the node waits for somebody.
	paused bool
}

func (o *outcome) note(ev *session.Event) {
	if ev.Actions.Route != nil {
		o.route = ev.Actions.Route
	}
	if ev.Content != nil && ev.IsFinal() {
		o.said = ev
	}
}

// walk is one run of a workflow. Its goroutine alone changes it.
type walk struct {
	*Workflow
	inv   *Invocation
	yield func(*session.Event, error) bool
	queue []task
	// joins holds, for each join that waits, the lanes of those that arrived.
	joins   map[int]map[int]*lane
	running int
	runs    int
	// times counts the runs of each node; live are the tasks that have begun
	// and not ended.
	times []int
	live  []task

	wg       sync.WaitGroup
	arrivals chan arrival
	ended    chan *outcome
}

// Run runs the nodes, and yields their events as they arrive.
func (a *Workflow) Run(ctx context.Context, inv *Invocation) Events { return eventsOf(ctx, a, inv) }

func (a *Workflow) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	inner, cancel := context.WithCancel(ctx)
	w := &walk{
		Workflow: a, inv: inv, yield: yield, joins: map[int]map[int]*lane{},
		arrivals: make(chan arrival), ended: make(chan *outcome), times: make([]int, len(a.Children)),
	}
	defer w.wg.Wait()
	defer cancel()
	if !w.begin(ctx) || !w.carryOn(inner) {
		return false
	}
	if err := ctx.Err(); err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return inv.Paused() || w.tellWaiting()
}

// begin takes the first edges, or puts in line what ran when the invocation was
// cut off.
func (w *walk) begin(ctx context.Context) bool {
	restored, err := w.restore()
	if err != nil {
		w.yield(nil, err)
		return false
	}
	return restored || w.follow(ctx, &outcome{task: task{node: Start, lane: &lane{branch: w.inv.branch}}})
}

// carryOn runs what is to run until nothing is left. It is false when the run
// is over before.
func (w *walk) carryOn(ctx context.Context) bool {
	for {
		if !w.launch(ctx) {
			return false
		}
		if w.running == 0 {
			return true
		}
		select {
		case o := <-w.ended:
			w.running--
			if o.paused {
				continue
			}
			w.live = slices.DeleteFunc(w.live, func(t task) bool { return t == o.task })
			if !w.follow(ctx, o) {
				return false
			}
		case arr := <-w.arrivals:
			if !w.yield(arr.ev, arr.err) || arr.err != nil {
				return false
			}
			arr.seen <- struct{}{}
		case <-ctx.Done():
			return true // Run tells why
		}
	}
}

// launch starts as many nodes as may run at a time.
func (w *walk) launch(ctx context.Context) bool {
	for len(w.queue) > 0 && (w.maximum == 0 || w.running < w.maximum) {
		next := w.queue[0]
		w.queue = w.queue[1:]
		if w.runs++; w.runs > maxNodeRuns {
			w.yield(nil, failf(CodeNodeRunsLimit, errNodeRuns, "the nodes of workflow %s ran %d times: it seems to go round for ever", w.AgentName, maxNodeRuns))
			return false
		}
		w.running++
		w.live = append(w.live, next)
		w.wg.Go(func() { w.runTask(ctx, next) })
	}
	return true
}

// runTask runs one node, and reports how it ended.
func (w *walk) runTask(ctx context.Context, t task) {
	o := &outcome{task: t}
	child := w.inv.enter(w.inv.node.children[t.node], t.lane.branch, t.nth)
	if child.frame != nil {
		for _, ev := range w.inv.run.record.under(child.frame.path) {
			o.note(ev)
		}
	}
	pass := passing(ctx, w.arrivals)
	child.runAgent(ctx, func(ev *session.Event, err error) bool {
		if ev != nil {
			o.note(ev)
		}
		return pass(ev, err)
	})
	o.paused = child.Paused()
	select {
	case w.ended <- o:
	case <-ctx.Done():
	}
}

// follow takes the edges on from a node that has ended. It is false when the
// run is over.
func (w *walk) follow(ctx context.Context, o *outcome) bool {
	targets, err := w.targets(ctx, o)
	if err != nil {
		w.yield(nil, err)
		return false
	}
	if len(targets) == 0 && len(w.edges[o.node+1]) > 0 {
		ev := w.inv.on(o.lane.branch).skipped("route: no edge on from " + w.nodeName(o.node) + " is for what it said")
		if w.inv.Resumable() {
			ev.Actions.AgentState = w.inv.Checkpoint(w.state()).Actions.AgentState
		}
		return w.yield(ev, nil)
	}
	for _, to := range targets {
		on := o.lane
		if len(targets) > 1 {
			on = &lane{branch: w.inv.on(o.lane.branch).subBranch(w.inv.node.children[to]), depth: o.lane.depth + 1, up: o.lane}
		}
		w.arrive(o.node, to, on)
	}
	return !w.inv.Resumable() || w.yield(w.inv.Checkpoint(w.state()), nil)
}

// line puts a node in line.
func (w *walk) line(node int, on *lane) {
	w.times[node]++
	w.queue = append(w.queue, task{node, w.times[node], on})
}

// arrive puts a node in line; a join only when the last node before it has
// ended, and on the lane that all of them forked from.
func (w *walk) arrive(from, to int, on *lane) {
	if _, ok := w.Children[to].(*JoinNode); !ok {
		w.line(to, on)
		return
	}
	if w.joins[to] == nil {
		w.joins[to] = map[int]*lane{}
	}
	w.joins[to][from] = on
	if len(w.joins[to]) < w.before[to] {
		return
	}
	for _, other := range w.joins[to] {
		on = meet(on, other)
	}
	delete(w.joins, to)
	w.line(to, on)
}

// tellWaiting tells of the joins that waited in vain.
func (w *walk) tellWaiting() bool {
	for i, c := range w.Children {
		reason := "join: " + c.Name() + " did not run, since not all nodes before it have ended"
		if w.joins[i] != nil && !w.told(reason) && !w.yield(w.inv.skipped(reason), nil) {
			return false
		}
	}
	return true
}

// told says whether that was said before the invocation was resumed.
func (w *walk) told(reason string) bool {
	return w.inv.frame != nil && slices.ContainsFunc(w.inv.frame.past.all(), func(ev *session.Event) bool {
		return ev.CustomMetadata[skippedKey] == reason
	})
}

func (w *walk) nodeName(i int) string {
	if i == Start {
		return "START"
	}
	return w.Children[i].Name()
}

// targets are the nodes that follow: those that always do, and those of the
// routes that match, or else of the default.
func (w *walk) targets(ctx context.Context, o *outcome) ([]int, error) {
	var targets []int
	add := func(to int) {
		if !slices.Contains(targets, to) {
			targets = append(targets, to)
		}
	}
	edges := w.edges[o.node+1]
	for i, e := range edges {
		switch {
		case e.Kind == EdgeAlways:
			add(e.To)
			continue
		case slices.ContainsFunc(edges[:i], func(f Edge) bool { return f.Kind != EdgeAlways && f.By == e.By }):
			continue // the first edge of an expression stands for all
		}
		values, err := w.routesOf(ctx, o, e)
		if err != nil {
			return nil, err
		}
		for _, to := range chosen(edges, e, values) {
			add(to)
		}
	}
	return targets, nil
}

// chosen are the targets of the edges that ask the same as e.
func chosen(edges []Edge, e Edge, values []string) []int {
	var matched, fallback []int
	for _, f := range edges {
		switch {
		case f.Kind == EdgeAlways || f.By != e.By:
		case f.Kind == EdgeDefault:
			fallback = append(fallback, f.To)
		case slices.Contains(values, f.Route):
			matched = append(matched, f.To)
		}
	}
	if len(matched) > 0 {
		return matched
	}
	return fallback
}

// routesOf is what decides between routes: the value of the edge's expression;
// else the route that an event of the node set; else what the node said, which
// is what its output_key keeps, where it has one.
func (w *walk) routesOf(ctx context.Context, o *outcome, e Edge) ([]string, error) {
	if e.By != nil {
		v, err := e.By.Eval(ctx, w.inv.vars())
		if err != nil {
			return nil, failf(CodeInvalidRequest, err, "route of workflow %s behind %s: %s", w.AgentName, w.nodeName(o.node), err)
		}
		return routeTexts(v), nil
	}
	switch {
	case o.route != nil:
		return routeTexts(o.route), nil
	case o.said == nil:
		return nil, nil
	}
	if l, ok := w.Children[o.node].(*LLMAgent); ok {
		if v, kept := o.said.Actions.StateDelta[l.opts.OutputKey]; kept {
			return routeTexts(v), nil
		}
	}
	return routeTexts(model.TextOf(o.said.Content)), nil
}

// routeTexts are the routes that a value stands for: a list for each of its
// elements, a text without the white space around it, anything else as JSON.
func routeTexts(v any) []string {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []string{strings.TrimSpace(v)}
	case []any:
		var all []string
		for _, e := range v {
			all = append(all, routeTexts(e)...)
		}
		return all
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return []string{string(b)}
}

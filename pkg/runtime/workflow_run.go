package runtime

import (
	"context"
	"errors"
	"slices"

	"agenthost/internal/safe"
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
	// input is what the node before gave; nil for nodes that have no use for it.
	input *value
}

// value is what a node gives. A pointer, so that tasks can be compared.
type value struct{ v any }

// arrived is a node that a join need not wait for any more.
type arrived struct {
	lane   *lane
	output any
}

// outcome is what the edges of a node may ask for.
type outcome struct {
	task
	route any
	said  *session.Event
	// output is what a node gave by itself.
	output any
	// paused says that the node waits for somebody.
	paused bool
}

func (o *outcome) note(ev *session.Event) {
	if ev.Actions.Route != nil {
		o.route = ev.Actions.Route
	}
	if ev.Content != nil && ev.IsFinal() {
		o.said, o.output = ev, nil
	}
	if ev.Output != nil {
		o.output = ev.Output
	}
}

// walk is one run of a workflow. Its goroutine alone changes it.
type walk struct {
	*Workflow
	inv   *Invocation
	yield func(*session.Event, error) bool
	queue []task
	// joins holds, for each join that waits, the lanes of those that arrived.
	joins   map[int]map[int]arrived
	running int
	runs    int
	// times counts the runs of each node; live are the tasks that have begun
	// and not ended.
	times []int
	live  []task

	arrivals chan *side
	ended    chan *outcome
}

// Run runs the nodes, and yields their events as they arrive.
func (a *Workflow) Run(ctx context.Context, inv *Invocation) Events { return eventsOf(ctx, a, inv) }

func (a *Workflow) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	inner, cancel := context.WithCancel(ctx)
	w := &walk{
		Workflow: a, inv: inv, yield: yield, joins: map[int]map[int]arrived{},
		arrivals: make(chan *side), ended: make(chan *outcome), times: make([]int, len(a.Children)),
	}
	defer w.leave()
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
	return restored || w.follow(ctx, &outcome{task: task{node: Start, lane: &lane{branch: w.inv.branch}}, output: w.inv.Input()})
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
		case s := <-w.arrivals:
			if !s.show(w.yield) {
				return false
			}
		case <-ctx.Done():
			return true // Run tells why
		}
	}
}

// leave waits for the nodes that still run when the run is over; nobody hears
// what they say.
func (w *walk) leave() {
	for w.running > 0 {
		select {
		case <-w.ended:
			w.running--
		case s := <-w.arrivals:
			s.answer(false)
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
		w.start(ctx, next)
	}
	return true
}

// start runs one node on a goroutine, which reports how it ended.
func (w *walk) start(ctx context.Context, t task) {
	o := &outcome{task: t}
	s := &side{to: w.arrivals}
	child := w.inv.enter(w.inv.node.children[t.node], t.lane.branch, t.nth)
	go func() {
		defer func() { w.ended <- o }()
		defer safe.Recover(func(p *safe.Panic) { s.pass(nil, child.panicFailure(p)) })
		w.runTask(ctx, child, s, o)
	}()
}

// runTask runs one node, and notes in o how it ended.
func (w *walk) runTask(ctx context.Context, child *Invocation, s *side, o *outcome) {
	child.input = o.input
	if _, join := w.Children[o.node].(*JoinNode); join {
		o.output = child.Input()
	}
	if child.frame != nil {
		for _, ev := range w.inv.run.record.under(child.frame.path) {
			o.note(ev)
		}
	}
	child.runAgent(ctx, func(ev *session.Event, err error) bool {
		if ev != nil {
			o.note(ev)
		}
		return s.pass(ev, err)
	})
	o.paused = child.Paused()
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
	output := w.outputOf(o)
	for _, to := range targets {
		on := o.lane
		if len(targets) > 1 {
			on = &lane{branch: w.inv.on(o.lane.branch).subBranch(w.inv.node.children[to]), depth: o.lane.depth + 1, up: o.lane}
		}
		w.arrive(o.node, to, arrived{on, output})
	}
	return !w.inv.Resumable() || w.yield(w.inv.Checkpoint(w.state()), nil)
}

// line puts a node in line.
func (w *walk) line(node int, on *lane, input any) {
	w.times[node]++
	t := task{node: node, nth: w.times[node], lane: on}
	if _, hears := w.Children[node].(*LLMAgent); !hears {
		t.input = &value{input}
	}
	w.queue = append(w.queue, t)
}

// arrive puts a node in line; a join only when the last node before it has
// ended, and on the lane that all of them forked from.
func (w *walk) arrive(from, to int, a arrived) {
	if _, ok := w.Children[to].(*JoinNode); !ok {
		w.line(to, a.lane, a.output)
		return
	}
	if w.joins[to] == nil {
		w.joins[to] = map[int]arrived{}
	}
	w.joins[to][from] = a
	if len(w.joins[to]) < w.before[to] {
		return
	}
	on, outputs := a.lane, map[string]any{}
	for i, other := range w.joins[to] {
		on = meet(on, other.lane)
		outputs[w.nodeName(i)] = other.output
	}
	delete(w.joins, to)
	w.line(to, on, outputs)
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
		return ev.Provenance.Skipped == reason
	})
}

func (w *walk) nodeName(i int) string {
	if i == Start {
		return "START"
	}
	return w.Children[i].Name()
}

package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// A run of a workflow has one owner: the goroutine of run, which alone changes workflowRun. Each node runs
// on a goroutine of its own and has two channels to the owner, one for events, one for its outcome:
//
//	followEdges ─▶ queue ─▶ launchTasks ─▶ runTask (goroutine)
//	     ▲                                     │ events:   the owner yields them, the node waits
//	     └────────────── outcomes ◀────────────┘
//
// An event is stored and consumed before its node continues, as everywhere else; nodes at the same time
// take turns. So a node may read what it has written, and the order of the events is that of the history.
//
// After a fork each path has a lane with a branch of its own, so that agents do not see their siblings.
// A join continues on the lane from which all of its inputs were forked. The ends of a task are:
//   - its outcome, whose edges are followed: then a checkpoint is stored;
//   - paused: the task stays active in the checkpoint, and a resumed workflow starts it again;
//   - an error, which it yields itself: the run ends.
//
// Whatever ends the run, drainTasks answers the nodes that still run until each has sent its outcome: no
// goroutine outlives the run. A cycle without a model is limited by maxNodeRuns.

// Run runs the nodes, and yields their events as they arrive.
func (a *Workflow) Run(ctx context.Context, inv *Invocation) Events { return streamEvents(ctx, a, inv) }

func (a *Workflow) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	inner, cancel := context.WithCancel(ctx)
	w := &workflowRun{
		Workflow: a, inv: inv, yield: yield, joins: map[int]map[int]joinInput{},
		events: make(chan *eventHandoff), outcomes: make(chan *nodeOutcome), times: make([]int, len(a.Children)), results: map[string]bool{}, waiting: map[task]bool{},
	}
	defer w.drainTasks()
	defer cancel()
	if !w.startOrRestore(ctx) || !w.runTasks(inner) {
		return false
	}
	if err := ctx.Err(); err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return inv.Paused() || w.reportUnmetJoins() && w.checkSoleOutput()
}

// CodeMultipleOutputs is the error code for a workflow in which more than one node without edges
// has an output.
const CodeMultipleOutputs = "MULTIPLE_OUTPUTS"

// checkSoleOutput reports nodes without edges that all have an output, which is the workflow's.
func (w *workflowRun) checkSoleOutput() bool {
	if w.inv.frame != nil {
		for _, ev := range w.inv.run.record.eventsUnder(w.inv.frame.path) {
			if slices.Contains(ev.OutputFor, w.inv.path) {
				name, _, _ := strings.Cut(strings.TrimPrefix(ev.NodePath, w.inv.path+"/"), "@")
				w.results[name] = true
			}
		}
	}
	if len(w.results) < 2 {
		return true
	}
	names := slices.Sorted(maps.Keys(w.results))
	w.yield(nil, failf(CodeMultipleOutputs, errOutputs, "workflow %s has more than one output: %s; let them lead to a JoinNode or another node", w.AgentName, strings.Join(names, ", ")))
	return false
}

// workflowRun is one workflow run. Only its own goroutine changes it.
type workflowRun struct {
	*Workflow
	inv   *Invocation
	yield func(*session.Event, error) bool
	queue []task
	// joins has the inputs received so far by each waiting join.
	joins   map[int]map[int]joinInput
	running int
	runs    int
	// listed counts the elements that list workers have run for.
	listed atomic.Int64
	// times counts each node's runs; active has the running tasks.
	times  []int
	active []task
	// results are the names of the nodes with the workflow's output.
	results map[string]bool
	// waiting are the tasks for agents with ModeTask that talk with the user. Meanwhile no other
	// node starts.
	waiting map[task]bool

	events   chan *eventHandoff
	outcomes chan *nodeOutcome
}

// lane is the branch on which a part of a workflow runs. Its parent is the lane
// from which it was forked.
type lane struct {
	branch string
	depth  int
	parent *lane
}

// task is a node's nth execution in this workflow run.
type task struct {
	node, nth int
	lane      *lane
	// input is the previous node's output; nil for an LLM agent in a checkpoint from an earlier
	// version, which then sees the conversation.
	input *nodeValue
}

// nodeOutcome is the result of a task. The edges of its node evaluate it.
type nodeOutcome struct {
	task
	route      any
	finalEvent *session.Event
	// output is the node's explicit output.
	output any
	// paused reports whether the node has pending calls.
	paused bool
}

// CodeNodeRunsLimit is the error code for a workflow that exceeds its limit of node executions.
const CodeNodeRunsLimit = "NODE_RUNS_LIMIT"

// maxNodeRuns is the maximum number of node executions in a workflow run. A node cycle without
// models is not limited by model calls.
const maxNodeRuns = 1000

var (
	errNodeRuns = errors.New("no node runs left")
	errOutputs  = errors.New("multiple terminal nodes produced output") // as in ADK
)

// commonLane returns the nearest common ancestor of two lanes.
func commonLane(a, b *lane) *lane {
	for a != b {
		if a.depth < b.depth {
			a, b = b, a
		}
		a = a.parent
	}
	return a
}

// joinInput is the output from a join's completed predecessor.
type joinInput struct {
	lane   *lane
	output any
}

func (o *nodeOutcome) recordEvent(ev *session.Event) {
	if ev.Actions.Route != nil {
		o.route = ev.Actions.Route
	}
	if ev.Content != nil && ev.IsFinal() {
		o.finalEvent, o.output = ev, nil
	}
	if ev.Output != nil {
		o.output = ev.Output
	}
}

// startOrRestore follows the first edges, or queues an interrupted invocation's tasks.
func (w *workflowRun) startOrRestore(ctx context.Context) bool {
	restored, err := w.restoreCheckpoint()
	if err != nil {
		w.yield(nil, err)
		return false
	}
	if restored {
		for _, t := range w.queue {
			if w.isTaskNode(t.node) && w.hasBegun(t) {
				w.waiting[t] = true
			}
		}
		return true
	}
	input, err := w.checkInput(ctx)
	if err != nil {
		w.yield(nil, err)
		return false
	}
	return w.followEdges(ctx, &nodeOutcome{task: task{node: Start, lane: &lane{branch: w.inv.branch}}, output: input})
}

// checkInput returns the workflow input, which the input schema checks. A message's text is JSON
// then.
func (w *workflowRun) checkInput(ctx context.Context) (any, error) {
	input := w.inv.Input()
	if w.input == nil || input == nil {
		return input, nil
	}
	var checked any
	var err error
	if text, ok := input.(string); ok {
		checked, err = w.input.Parse(ctx, text)
	} else {
		checked, err = w.input.Check(ctx, session.Normalize(input))
	}
	if err != nil {
		return nil, failf(CodeInvalidRequest, err, "the input of workflow %s does not match its input_schema: %s", w.AgentName, err)
	}
	return checked, nil
}

// runTasks runs tasks until none is left. It returns false when the run is
// over.
func (w *workflowRun) runTasks(ctx context.Context) bool {
	for {
		if !w.launchTasks(ctx) {
			return false
		}
		if w.running == 0 {
			return true
		}
		select {
		case o := <-w.outcomes:
			w.running--
			if o.paused {
				if w.isTaskNode(o.node) {
					w.waiting[o.task] = true
				}
				continue
			}
			delete(w.waiting, o.task)
			w.active = slices.DeleteFunc(w.active, func(t task) bool { return t == o.task })
			if !w.followEdges(ctx, o) {
				return false
			}
		case s := <-w.events:
			if !s.deliverEvent(w.yield) {
				return false
			}
		case <-ctx.Done():
			return true // Run reports the cause
		}
	}
}

// drainTasks waits for the nodes that still run when the run is over, and
// drops their events.
func (w *workflowRun) drainTasks() {
	for w.running > 0 {
		select {
		case <-w.outcomes:
			w.running--
		case s := <-w.events:
			s.acknowledgeEvent(false)
		}
	}
}

// launchTasks starts as many queued tasks as MaxConcurrency allows. While a task talks with the
// user, it starts only those that an interrupted run has begun.
func (w *workflowRun) launchTasks(ctx context.Context) bool {
	mayStart := func(t task) bool { return len(w.waiting) == 0 || w.hasBegun(t) }
	for w.maxConcurrency == 0 || w.running < w.maxConcurrency {
		i := slices.IndexFunc(w.queue, mayStart)
		if i < 0 {
			break
		}
		next := w.queue[i]
		w.queue = slices.Delete(w.queue, i, i+1)
		if w.runs++; w.runs > maxNodeRuns {
			w.yield(nil, failf(CodeNodeRunsLimit, errNodeRuns, "workflow %s exceeded %d node executions; possible infinite loop", w.AgentName, maxNodeRuns))
			return false
		}
		w.running++
		w.active = append(w.active, next)
		o, s := &nodeOutcome{task: next}, &eventHandoff{out: w.events}
		child := w.inv.newChildInvocation(w.inv.node.children[next.node], next.lane.branch, next.nth)
		go func() {
			defer func() { w.outcomes <- o }()
			defer safe.Recover(func(p *safe.Panic) { s.sendEvent(nil, child.panicFailure(p)) })
			w.runTask(ctx, child, s, o)
		}()
	}
	return true
}

// runTask runs one node, and stores its result in o.
func (w *workflowRun) runTask(ctx context.Context, child *Invocation, s *eventHandoff, o *nodeOutcome) {
	if workerOf(w.Children[o.node]) != nil {
		child.input = o.input
		w.runList(ctx, child, o, s)
		return
	}
	w.runNode(ctx, w.inv, child, o, func(ev *session.Event, err error) bool {
		if ev != nil {
			o.recordEvent(ev)
			w.markOutput(o, child, ev)
		}
		return s.sendEvent(ev, err)
	})
}

// runNode runs one node with its input, and stores its result in o. send records the events.
func (w *workflowRun) runNode(ctx context.Context, parent, child *Invocation, o *nodeOutcome, send func(*session.Event, error) bool) {
	child.input, child.turnStart = o.input, len(w.inv.run.sess.Events())
	if child.frame != nil {
		for _, ev := range w.inv.run.record.eventsUnder(child.frame.path) {
			o.recordEvent(ev)
		}
	}
	if b, ok := w.Children[o.node].(baseAgent); ok && b.base().attempts.isSet() {
		n := &nodeAttempts{Attempts: &b.base().attempts, sink: send, fresh: func() *Invocation { return newAttempt(parent, child, o) }}
		child = n.runAttempts(ctx, child)
	} else {
		child.runAgent(ctx, send)
	}
	o.paused = child.Paused()
}

// newAttempt returns the invocation for another node attempt, and clears the last one's result.
func newAttempt(parent, last *Invocation, o *nodeOutcome) *Invocation {
	again := parent.newChildInvocation(last.node, last.branch, o.nth)
	again.input, again.turnStart = last.input, len(parent.run.sess.Events())
	if again.frame != nil && again.frame.prior.lastEvent() != nil {
		again.frame = nil // a resumed node would not run again
	}
	o.route, o.output, o.finalEvent = nil, nil, nil
	return again
}

// markOutput marks an event that has the output of a node, and of the workflow if no node follows.
func (w *workflowRun) markOutput(o *nodeOutcome, child *Invocation, ev *session.Event) {
	_, nested := w.Children[o.node].(*Workflow)
	switch {
	case nested && slices.Contains(ev.OutputFor, child.path):
	case !child.markOutput(ev):
		return
	}
	if len(w.edges[o.node+1]) == 0 {
		ev.OutputFor = append(ev.OutputFor, w.inv.path)
	}
}

// markOutput marks an event that has this agent run's output (adk-python
// workflow/_llm_agent_wrapper.py).
func (inv *Invocation) markOutput(ev *session.Event) bool {
	if ev.NodePath != inv.path || ev.Partial || ev.Actions.AgentState != nil || ev.Actions.EndOfAgent {
		return false
	}
	isMessage := ev.Output == nil && !inv.node.isTaskNode() && ev.Author != session.UserAuthor && ev.IsFinal() && ev.Text() != "" && len(ev.Calls()) == 0
	if ev.Output == nil && !isMessage {
		return false
	}
	ev.OutputFor, ev.MessageAsOutput = []string{inv.path}, isMessage
	return true
}

// followEdges enters the next nodes after a node has ended. It returns false
// when the run is over.
func (w *workflowRun) followEdges(ctx context.Context, o *nodeOutcome) bool {
	targets, err := w.chooseTargets(ctx, o)
	if err != nil {
		w.yield(nil, err)
		return false
	}
	if len(targets) == 0 && len(w.edges[o.node+1]) > 0 {
		ev := w.inv.withBranch(o.lane.branch).newSkippedEvent("route: no edge from " + w.nodeName(o.node) + " matches its output")
		if w.inv.Resumable() {
			ev.Actions.AgentState = w.inv.Checkpoint(w.checkpointState()).Actions.AgentState
		}
		return w.yield(ev, nil)
	}
	output := w.nodeOutput(o)
	if len(w.edges[o.node+1]) == 0 && output != nil {
		w.results[w.nodeName(o.node)] = true
	}
	for _, to := range targets {
		on := o.lane
		if len(targets) > 1 {
			branch := joinBranch(o.lane.branch, w.nodeName(to), strconv.Itoa(w.times[to]+1))
			on = &lane{branch: branch, depth: o.lane.depth + 1, parent: o.lane}
		}
		w.enterNode(o.node, to, joinInput{on, output})
	}
	return !w.inv.Resumable() || w.yield(w.inv.Checkpoint(w.checkpointState()), nil)
}

// enqueueNode queues a node.
func (w *workflowRun) enqueueNode(node int, on *lane, input any) {
	w.times[node]++
	w.queue = append(w.queue, task{node: node, nth: w.times[node], lane: on, input: &nodeValue{input}})
}

// startInput is the name of the workflow's own input among a join's inputs (adk-python
// workflow/_base_node.py START).
const startInput = "__START__"

// enterNode queues a node. A join is queued when its last predecessor has
// ended, on the lane that all of them forked from.
func (w *workflowRun) enterNode(from, to int, a joinInput) {
	if _, ok := w.Children[to].(*JoinNode); !ok {
		w.enqueueNode(to, a.lane, a.output)
		return
	}
	if w.joins[to] == nil {
		w.joins[to] = map[int]joinInput{}
	}
	w.joins[to][from] = a
	if len(w.joins[to]) < w.predecessors[to] {
		return
	}
	on, outputs := a.lane, map[string]any{}
	for i, other := range w.joins[to] {
		on = commonLane(on, other.lane)
		if i == Start {
			outputs[startInput] = other.output
			continue
		}
		outputs[w.nodeName(i)] = other.output
	}
	delete(w.joins, to)
	w.enqueueNode(to, on, outputs)
}

// reportUnmetJoins yields an event for each join that did not run, unless the event was yielded
// before the invocation was resumed.
func (w *workflowRun) reportUnmetJoins() bool {
	for i, c := range w.Children {
		reason := "join: " + c.Name() + " did not run, since not all nodes before it have ended"
		isReport := func(ev *session.Event) bool { return ev.Provenance.Skipped == reason }
		if w.joins[i] == nil || w.inv.frame != nil && slices.ContainsFunc(w.inv.frame.prior.allEvents(), isReport) {
			continue
		}
		if !w.yield(w.inv.newSkippedEvent(reason), nil) {
			return false
		}
	}
	return true
}

func (w *workflowRun) nodeName(i int) string {
	if i == Start {
		return "START"
	}
	return w.Children[i].Name()
}

// chooseTargets returns the next nodes: the targets of unconditional edges, and of the matching
// routes, or else of the default route.
func (w *workflowRun) chooseTargets(ctx context.Context, o *nodeOutcome) ([]int, error) {
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
			continue // only the first edge with an expression evaluates it
		}
		values, err := w.routeValues(ctx, o, e)
		if err != nil {
			return nil, err
		}
		for _, to := range matchingTargets(edges, e, values) {
			add(to)
		}
	}
	return targets, nil
}

// matchingTargets returns the targets of the matching edges with e's expression.
func matchingTargets(edges []Edge, e Edge, values []routeValue) []int {
	var matched, fallback []int
	for _, f := range edges {
		switch {
		case f.Kind == EdgeAlways || f.By != e.By:
		case f.Kind == EdgeDefault:
			fallback = append(fallback, f.To)
		case slices.ContainsFunc(values, func(v routeValue) bool { return v.matchesRoute(f.Route) }):
			matched = append(matched, f.To)
		}
	}
	if len(matched) > 0 {
		return matched
	}
	return fallback
}

// routeValues returns the values that routes are matched against: the value of the edge's
// expression, or else the route that a node event set, or else the node's output.
func (w *workflowRun) routeValues(ctx context.Context, o *nodeOutcome, e Edge) ([]routeValue, error) {
	if e.By != nil {
		v, err := e.By.Eval(ctx, w.inv.ExprVars())
		if err != nil {
			return nil, failf(CodeInvalidRequest, err, "route of workflow %s after %s: %s", w.AgentName, w.nodeName(o.node), err)
		}
		return listRouteValues(v, false), nil
	}
	if o.route != nil {
		return listRouteValues(o.route, true), nil
	}
	return listRouteValues(w.nodeOutput(o), false), nil
}

// routeValue is a value that routes are matched against.
type routeValue struct {
	text string
	// typed is a route's value that an event set, as ADK compares it: a string, a float64 or a
	// bool. It is nil for values that match as text.
	typed any
}

// matchesRoute reports whether the value matches an edge's route.
func (v routeValue) matchesRoute(route any) bool {
	switch typed := v.typed.(type) {
	case string:
		return route == any(typed)
	case bool:
		return route == any(typed)
	case float64:
		n, ok := route.(int64)
		return ok && float64(n) == typed
	}
	return v.text == RouteText(route)
}

// RouteText returns an edge's route as text.
func RouteText(route any) string {
	if route == nil {
		return ""
	}
	return fmt.Sprint(route)
}

// nodeOutput returns a node's output: its explicit output, or else the value of its output_key, or
// else its text.
func (w *workflowRun) nodeOutput(o *nodeOutcome) any {
	switch {
	case o.output != nil || o.finalEvent == nil:
		return o.output
	case o.node != Start:
		if l, ok := w.Children[o.node].(*LLMAgent); ok {
			if v, kept := o.finalEvent.Actions.StateDelta[l.opts.OutputKey]; kept {
				return v
			}
		}
	}
	if text := model.TextOf(o.finalEvent.Content); text != "" {
		return text
	}
	return nil
}

// listRouteValues returns the values in a route or an output: one per element of a list. The text
// of a value is a string without surrounding white space, or else JSON.
func listRouteValues(v any, typed bool) []routeValue {
	switch v := session.Normalize(v).(type) {
	case nil:
		return nil
	case []any:
		var all []routeValue
		for _, e := range v {
			all = append(all, listRouteValues(e, typed)...)
		}
		return all
	case string:
		value := routeValue{text: strings.TrimSpace(v)}
		if typed {
			value.typed = value.text
		}
		return []routeValue{value}
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return nil
		}
		value := routeValue{text: string(b)}
		if n, err := strconv.ParseFloat(value.text, 64); typed && err == nil {
			value.typed = n
		} else if flag, ok := v.(bool); typed && ok {
			value.typed = flag
		}
		return []routeValue{value}
	}
}

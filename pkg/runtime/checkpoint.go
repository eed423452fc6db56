package runtime

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"agenthost/pkg/session"
)

// A checkpoint is an event with the progress of one agent in a resumable app. It names the next part that
// has not ended, so that a resumed agent repeats nothing before it:
//
//	SequentialAgent  {current_sub_agent}
//	LoopAgent        {current_sub_agent, times_looped}
//	RouterAgent      {current_sub_agent}               the choice, which conditions might change
//	LLM agent        {waiting_for: [call IDs]}         when it pauses
//	Workflow         {tasks, joins, lanes, nodes}      after each node
//
// The last one counts, and it is stored before the part starts: a crash in between starts that part
// again, and a crash after it finds the part's own end event (resume.go). A sub-agent that runs several
// times has the number of the run in its path, so that its events belong to one run.
//
// A reader does not trust a checkpoint: apps change between two processes, sessions are imported, rows
// are edited. It rejects everything that the agent cannot have written, with the path of the value, and
// never panics or runs another node instead.

// Checkpoint returns an event that stores the agent's progress. Yield it like any other event, and
// only if the invocation is Resumable. Models do not see it.
func (inv *Invocation) Checkpoint(state map[string]any) *session.Event {
	ev := inv.NewEvent()
	ev.Actions.AgentState, _ = session.Normalize(state).(map[string]any)
	return ev
}

// A checkpointReader reads an agent's stored progress. Sessions can be imported and databases
// edited, so the data is not trusted: the first value that the agent cannot have written fails the
// turn.
type checkpointReader struct {
	inv *Invocation
	err error
}

// maxShownValue is a rejected value's maximum length in an error.
const maxShownValue = 60

// rejectValue records the first problem. got is optional.
func (r *checkpointReader) rejectValue(at, problem string, got ...any) {
	if r.err != nil {
		return
	}
	message := at + " " + problem
	if len(got) > 0 {
		shown := strings.ToValidUTF8(jsonText(got[0]), "")
		if len(shown) > maxShownValue {
			shown = strings.ToValidUTF8(shown[:maxShownValue], "") + "…"
		}
		message += ", got " + shown
	}
	r.err = failf(CodeInvalidRequest, session.ErrInvalid,
		"the invocation cannot be resumed: stored state of agent %s: %s", r.inv.node.agent.Name(), message)
}

// readString reads a string.
func (r *checkpointReader) readString(at string, v any) string {
	s, ok := v.(string)
	if !ok {
		r.rejectValue(at, "must be a string", v)
	}
	return s
}

// readNumber reads an integer within bounds; its result always lies within
// them.
func (r *checkpointReader) readNumber(at string, v any, minimum, maximum int) int {
	n, ok := v.(int64)
	if ok && int64(minimum) <= n && n <= int64(maximum) {
		return int(n)
	}
	expected := fmt.Sprintf("must be a number from %d to %d", minimum, maximum)
	if minimum == maximum {
		expected = fmt.Sprintf("must be %d", minimum)
	}
	r.rejectValue(at, expected, v)
	return minimum
}

// readList reads a list; an absent one is empty.
func (r *checkpointReader) readList(at string, v any) []any {
	l, ok := v.([]any)
	if !ok && v != nil {
		r.rejectValue(at, "must be a list", v)
	}
	return l
}

// readMapping reads a mapping; an absent one is empty.
func (r *checkpointReader) readMapping(at string, v any) map[string]any {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		r.rejectValue(at, "must be a mapping", v)
	}
	return m
}

// currentSubAgentKey is the checkpoint key with the running sub-agent (adk-python
// agents/sequential_agent.py).
const currentSubAgentKey = "current_sub_agent"

// readCurrentChild returns the index of the sub-agent in the last checkpoint,
// and whether there is one.
func (inv *Invocation) readCurrentChild() (i int, found bool, err error) {
	v := inv.AgentState()[currentSubAgentKey]
	if v == nil {
		return 0, false, nil
	}
	r := checkpointReader{inv: inv}
	name := r.readString(currentSubAgentKey, v)
	if r.err != nil {
		return 0, false, r.err
	}
	for i, c := range inv.node.children {
		if c.agent.Name() == name {
			return i, true, nil
		}
	}
	return 0, false, inv.missingNodeError(name)
}

// timesLoopedKey is the checkpoint key with the number of completed iterations (adk-python
// agents/loop_agent.py).
const timesLoopedKey = "times_looped"

// readTimesLooped returns the number of completed iterations in the last
// checkpoint.
func (inv *Invocation) readTimesLooped() (int, error) {
	v := inv.AgentState()[timesLoopedKey]
	if v == nil {
		return 0, nil
	}
	r := checkpointReader{inv: inv}
	return r.readNumber(timesLoopedKey, v, 0, math.MaxInt32), r.err
}

// PendingCallsKey is the key in an LLM agent's checkpoint with its pending call IDs.
const PendingCallsKey = "waiting_for"

// readPendingCalls returns the calls that the agent's checkpoints mark as
// pending.
func (inv *Invocation) readPendingCalls() (map[string]bool, error) {
	r := checkpointReader{inv: inv}
	waiting := map[string]bool{}
	for _, ev := range inv.frame.prior.allEvents() {
		for i, id := range r.readList(PendingCallsKey, ev.Actions.AgentState[PendingCallsKey]) {
			waiting[r.readString(fmt.Sprintf("%s[%d]", PendingCallsKey, i), id)] = true
		}
	}
	return waiting, r.err
}

// missingNodeError reports that the interrupted node no longer exists.
func (inv *Invocation) missingNodeError(name string) error {
	return failf(CodeInvalidRequest, session.ErrInvalid,
		"the invocation cannot be resumed: it was in %s of agent %s, which no longer exists; start a new one", name, inv.node.agent.Name())
}

// A workflow's checkpoint contains the queued and running tasks with their lanes, and the inputs of
// waiting joins. It refers to nodes by name. The key "nodes" has the status of each node, for
// display in ADK clients.
const (
	statusRunning = "running"
	statusWaiting = "waiting"
	statusDone    = "completed"
)

// checkpointState returns the current state for a checkpoint.
func (w *workflowRun) checkpointState() map[string]any {
	lanes := &laneList{}
	nodes := map[string]any{}
	for i, n := range w.times {
		if n > 0 {
			nodes[w.nodeName(i)] = map[string]any{"status": statusDone, "runs": n}
		}
	}
	tasks := []any{}
	for _, t := range slices.Concat(w.active, w.queue) {
		nodes[w.nodeName(t.node)] = map[string]any{"status": statusRunning, "runs": w.times[t.node]}
		one := map[string]any{"node": w.nodeName(t.node), "run": t.nth, "lane": lanes.indexOf(t.lane)}
		if t.input != nil {
			one["input"] = t.input.v
		}
		tasks = append(tasks, one)
	}
	joins := map[string]any{}
	for _, to := range slices.Sorted(maps.Keys(w.joins)) {
		arrived := map[string]any{}
		for _, from := range slices.Sorted(maps.Keys(w.joins[to])) {
			a := w.joins[to][from]
			arrived[w.nodeName(from)] = map[string]any{"lane": lanes.indexOf(a.lane), "output": a.output}
		}
		joins[w.nodeName(to)] = arrived
		nodes[w.nodeName(to)] = map[string]any{"status": statusWaiting, "runs": w.times[to]}
	}
	return map[string]any{"nodes": nodes, "tasks": tasks, "joins": joins, "lanes": lanes.encoded}
}

// laneList numbers lanes, parents first.
type laneList struct {
	lanes   []*lane
	encoded []any
}

func (l *laneList) indexOf(on *lane) int {
	if i := slices.Index(l.lanes, on); i >= 0 {
		return i
	}
	up := -1
	if on.parent != nil {
		up = l.indexOf(on.parent)
	}
	l.lanes = append(l.lanes, on)
	l.encoded = append(l.encoded, map[string]any{"branch": on.branch, "up": up})
	return len(l.lanes) - 1
}

// restoreCheckpoint queues the tasks in the last checkpoint, and reports whether there was one.
func (w *workflowRun) restoreCheckpoint() (bool, error) {
	saved := w.inv.AgentState()
	if saved == nil {
		return false, nil
	}
	r := &workflowReader{checkpointReader: checkpointReader{inv: w.inv}, run: w}
	r.readLanes(saved["lanes"])
	r.readNodes(saved["nodes"])
	r.readJoins(saved["joins"])
	r.readTasks(saved["tasks"])
	return true, r.err
}

// workflowReader reads a checkpoint into a walk.
type workflowReader struct {
	checkpointReader
	run   *workflowRun
	lanes []*lane
}

// readLanes reads the lanes. The parent of each lane but the first precedes it,
// so that any two lanes have a common ancestor.
func (r *workflowReader) readLanes(v any) {
	for i, v := range r.readList("lanes", v) {
		at := fmt.Sprintf("lanes[%d]", i)
		m := r.readMapping(at, v)
		on := &lane{branch: r.readString(at+".branch", m["branch"])}
		if i == 0 {
			r.readNumber(at+".up", m["up"], -1, -1)
		} else if up := r.readNumber(at+".up", m["up"], 0, i-1); r.err == nil {
			on.parent, on.depth = r.lanes[up], r.lanes[up].depth+1
		}
		r.lanes = append(r.lanes, on)
		if r.err != nil {
			return
		}
	}
}

func (r *workflowReader) readNodes(v any) {
	nodes := r.readMapping("nodes", v)
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		at := "nodes." + name
		if i := r.findNode(at, name); r.err == nil {
			r.run.times[i] = r.readNumber(at+".runs", r.readMapping(at, nodes[name])["runs"], 0, maxNodeRuns)
			r.run.runs += r.run.times[i]
		}
	}
}

// readJoins reads the inputs of waiting joins.
func (r *workflowReader) readJoins(v any) {
	joins := r.readMapping("joins", v)
	for _, name := range slices.Sorted(maps.Keys(joins)) {
		at := "joins." + name
		to := r.findNode(at, name)
		if r.err != nil {
			return
		}
		if _, ok := r.run.Children[to].(*JoinNode); !ok {
			r.rejectValue(at, "must be a JoinNode")
			return
		}
		before := r.readMapping(at, joins[name])
		r.run.joins[to] = map[int]joinInput{}
		for _, from := range slices.Sorted(maps.Keys(before)) {
			r.readArrived(to, from, before[from])
		}
	}
}

func (r *workflowReader) readArrived(to int, name string, v any) {
	at := "joins." + r.run.nodeName(to) + "." + name
	from := Start
	if name != r.run.nodeName(Start) {
		from = r.findNode(at, name)
	}
	if r.err == nil && !slices.ContainsFunc(r.run.edges[from+1], func(e Edge) bool { return e.To == to }) {
		r.rejectValue(at, "has no edge to "+r.run.nodeName(to))
	}
	m := r.readMapping(at, v)
	if on := r.findLane(at+".lane", m["lane"]); r.err == nil {
		r.run.joins[to][from] = joinInput{on, m["output"]}
	}
}

// readTasks reads the running and queued tasks. It rejects duplicates and run numbers that exceed
// the node's run count.
func (r *workflowReader) readTasks(v any) {
	type run struct{ node, nth int }
	seen := map[run]bool{}
	for i, v := range r.readList("tasks", v) {
		at := fmt.Sprintf("tasks[%d]", i)
		m := r.readMapping(at, v)
		name := r.readString(at+".node", m["node"])
		node := r.findNode(at+".node", name)
		on := r.findLane(at+".lane", m["lane"])
		if r.err != nil {
			return
		}
		t := task{node: node, lane: on, nth: r.readNumber(at+".run", m["run"], 1, max(1, r.run.times[node]))}
		if input, has := m["input"]; has {
			t.input = &nodeValue{input}
		}
		if seen[run{node, t.nth}] {
			r.rejectValue(at, fmt.Sprintf("repeats run %d of node %s", t.nth, name))
		}
		seen[run{node, t.nth}] = true
		r.run.queue = append(r.run.queue, t)
		r.run.runs--
	}
}

// findNode returns a node's index. The error for a missing node reports that the workflow no longer
// has it.
func (r *workflowReader) findNode(at, name string) int {
	i := slices.IndexFunc(r.run.Children, func(a Agent) bool { return a.Name() == name })
	switch {
	case i >= 0 || r.err != nil:
	case name == r.run.nodeName(Start):
		r.rejectValue(at, "must be a node of the workflow", name)
	default:
		r.err = r.inv.missingNodeError(name)
	}
	return max(i, 0)
}

// findLane returns the lane with a number; nil with an error if there is none.
func (r *workflowReader) findLane(at string, v any) *lane {
	if len(r.lanes) == 0 {
		r.rejectValue(at, "must be a lane of lanes", v)
		return nil
	}
	return r.lanes[r.readNumber(at, v, 0, len(r.lanes)-1)]
}

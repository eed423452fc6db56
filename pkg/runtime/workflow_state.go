package runtime

import (
	"maps"
	"slices"
)

// A workflow's checkpoint says which nodes are to run on which lanes, and what
// has arrived at which join. Nodes go by their names; under "nodes" stands for
// each how it is, as ADK's clients draw it.
const (
	statusRunning = "running"
	statusWaiting = "waiting"
	statusDone    = "completed"
)

// state is the checkpoint of the walk as it stands.
func (w *walk) state() map[string]any {
	lanes := &laneList{}
	nodes := map[string]any{}
	for i, n := range w.times {
		if n > 0 {
			nodes[w.nodeName(i)] = map[string]any{"status": statusDone, "runs": n}
		}
	}
	tasks := []any{}
	for _, t := range slices.Concat(w.live, w.queue) {
		nodes[w.nodeName(t.node)] = map[string]any{"status": statusRunning, "runs": w.times[t.node]}
		one := map[string]any{"node": w.nodeName(t.node), "run": t.nth, "lane": lanes.place(t.lane)}
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
			arrived[w.nodeName(from)] = map[string]any{"lane": lanes.place(a.lane), "output": a.output}
		}
		joins[w.nodeName(to)] = arrived
		nodes[w.nodeName(to)] = map[string]any{"status": statusWaiting, "runs": w.times[to]}
	}
	return map[string]any{"nodes": nodes, "tasks": tasks, "joins": joins, "lanes": lanes.said}
}

// laneList numbers lanes, those that they forked from first.
type laneList struct {
	lanes []*lane
	said  []any
}

func (l *laneList) place(on *lane) int {
	if i := slices.Index(l.lanes, on); i >= 0 {
		return i
	}
	up := -1
	if on.up != nil {
		up = l.place(on.up)
	}
	l.lanes = append(l.lanes, on)
	l.said = append(l.said, map[string]any{"branch": on.branch, "up": up})
	return len(l.lanes) - 1
}

// restore puts in line what the last checkpoint says, and says whether there
// was one.
func (w *walk) restore() (bool, error) {
	saved := w.inv.AgentState()
	if saved == nil {
		return false, nil
	}
	r := &workflowReader{walk: w}
	for _, v := range list(saved["lanes"]) {
		l := object(v)
		on := &lane{up: r.lane(l["up"])}
		on.branch, _ = l["branch"].(string)
		if on.up != nil {
			on.depth = on.up.depth + 1
		}
		r.lanes = append(r.lanes, on)
	}
	for name, v := range object(saved["nodes"]) {
		if at := r.node(name); at >= 0 {
			w.times[at] = number(object(v)["runs"])
			w.runs += w.times[at]
		}
	}
	for to, v := range object(saved["joins"]) {
		w.joins[r.node(to)] = map[int]arrived{}
		for from, at := range object(v) {
			a := object(at)
			w.joins[r.node(to)][r.node(from)] = arrived{r.lane(a["lane"]), a["output"]}
		}
	}
	for _, v := range list(saved["tasks"]) {
		t := object(v)
		name, _ := t["node"].(string)
		again := task{node: r.node(name), nth: number(t["run"]), lane: r.lane(t["lane"])}
		if input, has := t["input"]; has {
			again.input = &value{input}
		}
		w.queue = append(w.queue, again)
		w.runs--
	}
	return true, r.err
}

// workflowReader reads a checkpoint. Its error is the first name that the
// workflow does not have any more.
type workflowReader struct {
	*walk
	lanes []*lane
	err   error
}

func (r *workflowReader) node(name string) int {
	if name == r.nodeName(Start) {
		return Start
	}
	i := slices.IndexFunc(r.Children, func(a Agent) bool { return a.Name() == name })
	if i < 0 && r.err == nil {
		r.err = r.inv.lost(name)
	}
	return i
}

// lane is the lane of a number; nil when there is none.
func (r *workflowReader) lane(v any) *lane {
	i := number(v)
	if v == nil || i < 0 || i >= len(r.lanes) {
		return nil
	}
	return r.lanes[i]
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func number(v any) int {
	n, _ := v.(int64)
	return int(n)
}

package loader

import (
	"maps"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// keySet is a set of state keys.
type keySet map[string]bool

func (k keySet) union(more keySet) keySet {
	all := maps.Clone(k)
	maps.Copy(all, more)
	return all
}

// walkState is the state of the walk at an agent, in the first run of a session: the
// keys that may have been written, and whether the agent always runs.
type walkState struct {
	before  keySet
	certain bool
}

// checkOrder warns of keys that the first run of a session always reads before anything
// can have written them. Such a run always fails, so that no later run has the keys
// either.
func (f *stateFlow) checkOrder(root *resolvedAgent) {
	if !f.opaque {
		f.walkInOrder(root, walkState{keySet{}, true})
	}
}

// walkInOrder walks the tree in execution order.
func (f *stateFlow) walkInOrder(p *resolvedAgent, w walkState) {
	use := p.stateUse()
	for _, write := range use.Writes {
		if write.First {
			w.before = w.before.union(keySet{write.Key.Value: true})
		}
	}
	w.certain = w.certain && p.plan.Node.Get("when").IsNull() && !use.Guarded
	if !w.certain {
		return
	}
	for _, t := range use.Texts {
		f.checkEarlyReads(p, t, w)
	}
	switch p.plan.Kind.Name {
	case "SequentialAgent", "LoopAgent":
		w.before = maps.Clone(w.before)
		for _, sub := range p.subs {
			f.walkInOrder(sub, w)
			f.addPossibleWrites(sub, w.before)
		}
	case "ParallelAgent":
		for _, sub := range p.subs {
			f.walkInOrder(sub, w)
		}
	case "Workflow":
		f.walkEdges(p, w)
	}
}

// checkEarlyReads checks an instruction that is rendered when its agent starts.
func (f *stateFlow) checkEarlyReads(p *resolvedAgent, t tool.StateText, w walkState) {
	if !t.Begins {
		return
	}
	for _, ref := range t.Refs {
		writers := f.writers[ref.Name]
		typed := f.schema.Closed() && !strings.Contains(ref.Name, ":") || f.schema.Declares(ref.Name)
		if ref.Optional || typed || w.before[ref.Name] || outlivesSession(ref.Name) || writers == nil {
			continue
		}
		by := writers[0]
		d := t.Text.Warnf(ref.Offset, "state-order", "agent %s reads the state key %s before it is written", p.name, ref.Name)
		f.addProblem(d.WithHint("agent %s writes it, at %s: run that agent first, or write {%s?}", by.agent.name, findWritePos(by, ref.Name), ref.Name))
	}
}

func findWritePos(p stateAccess, key string) spec.Pos {
	for _, w := range p.use.Writes {
		if w.Key.Value == key {
			return w.Key.At(0)
		}
	}
	return p.agent.plan.Node.Pos
}

// collectPossibleWrites returns the keys that an agent, its tools and its descendants
// may write.
func (f *stateFlow) collectPossibleWrites(p *resolvedAgent) keySet {
	all := keySet{}
	f.addPossibleWrites(p, all)
	return all
}

func (f *stateFlow) addPossibleWrites(p *resolvedAgent, into keySet) {
	for _, w := range p.stateUse().Writes {
		into[w.Key.Value] = true
	}
	for _, t := range p.tools {
		for _, w := range t.stateUse().Writes {
			into[w.Key.Value] = true
		}
		if t.agent != nil {
			f.addPossibleWrites(t.agent, into)
		}
	}
	for _, sub := range p.subs {
		f.addPossibleWrites(sub, into)
	}
}

// workflowEdges returns the edges of a workflow, whose nodes are the sub-agents.
func workflowEdges(p *resolvedAgent) []runtime.Edge {
	c, ok := p.plan.Config.(interface{ WorkflowEdges() []runtime.Edge })
	if !ok {
		return nil
	}
	return c.WorkflowEdges()
}

// walkEdges walks the nodes that a workflow always reaches.
func (f *stateFlow) walkEdges(p *resolvedAgent, w walkState) {
	edges := workflowEdges(p)
	certain := reachableNodes(edges, runtime.Start, func(e runtime.Edge) (int, int, bool) { return e.From, e.To, e.Kind == runtime.EdgeAlways })
	for i, node := range p.subs {
		if !certain[i] {
			continue
		}
		before := w.before
		for at := range reachableNodes(edges, i, func(e runtime.Edge) (int, int, bool) { return e.To, e.From, e.From != runtime.Start }) {
			before = before.union(f.collectPossibleWrites(p.subs[at]))
		}
		f.walkInOrder(node, walkState{before, true})
	}
}

// reachableNodes returns the nodes that are reachable from a node. The node itself is
// included only if it is in a cycle.
func reachableNodes(edges []runtime.Edge, from int, along func(runtime.Edge) (from, to int, ok bool)) map[int]bool {
	reached := map[int]bool{}
	for next := []int{from}; len(next) > 0; next = next[1:] {
		for _, e := range edges {
			if a, b, ok := along(e); ok && a == next[0] && !reached[b] {
				reached[b] = true
				next = append(next, b)
			}
		}
	}
	return reached
}

package loader

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// walkState is the walk's state at an agent, in a session's first run: the keys that may have been
// written, and whether the agent always runs.
type walkState struct {
	before  keySet
	certain bool
}

// checkOrder warns about keys that a session's first run always reads before anything can have
// written them. Such a run always fails, so that no later run has the keys either.
func (f *stateFlow) checkOrder() {
	if !f.opaque {
		f.walkInOrder(f.root, walkState{keySet{}, true})
	}
}

// walkInOrder walks the tree in execution order.
func (f *stateFlow) walkInOrder(p *resolvedAgent, w walkState) {
	use := p.cachedStateUse()
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

func (f *stateFlow) addPossibleWrites(p *resolvedAgent, into keySet) {
	for _, w := range p.cachedStateUse().Writes {
		into[w.Key.Value] = true
	}
	for _, t := range p.tools {
		for _, w := range t.collectStateUse().Writes {
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
			writes := keySet{}
			f.addPossibleWrites(p.subs[at], writes)
			before = before.union(writes)
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

// checkRaces warns about agents that run in parallel and always write the same key. It also warns
// about a set that computes the new value of a key from its old value when several sessions share
// the key: another session's writes since the read are lost. A key in one session loses nothing,
// because its turns run one after the other.
func (f *stateFlow) checkRaces() {
	checked := map[spec.Pos]bool{} // a tool may belong to several agents
	for _, p := range f.accesses {
		for _, w := range p.use.Writes {
			key := w.Key.Value
			if checked[w.Value.Pos] {
				continue
			}
			checked[w.Value.Pos] = true
			if w.Verb != "set" || !outlivesSession(key) {
				continue
			}
			if offset, ok := template.FindDerivation(w.Value.Value, "state", key); ok {
				d := w.Value.Warnf(offset, "state-race", "set computes the new value of %s from the old one: concurrent writes by other sessions are lost", key)
				f.addProblem(d.WithHint("to count, use add: {%q: 1}; to collect, append; to keep a record, max or min", key))
			}
		}
	}
	f.root.visitTree(func(p *resolvedAgent) {
		for _, group := range groupParallel(p) {
			f.checkRace(group)
		}
	})
}

// groupParallel returns the sub-agent groups that an agent starts at the same time.
func groupParallel(p *resolvedAgent) [][]*resolvedAgent {
	if p.plan.Kind.Name == "ParallelAgent" {
		return [][]*resolvedAgent{p.subs}
	}
	begun := map[int][]*resolvedAgent{}
	for _, e := range workflowEdges(p) {
		if e.Kind == runtime.EdgeAlways && e.To < len(p.subs) && !slices.Contains(begun[e.From], p.subs[e.To]) {
			begun[e.From] = append(begun[e.From], p.subs[e.To])
		}
	}
	var groups [][]*resolvedAgent
	for _, from := range slices.Sorted(maps.Keys(begun)) {
		groups = append(groups, begun[from])
	}
	return groups
}

func (f *stateFlow) checkRace(group []*resolvedAgent) {
	taken := map[string]*resolvedAgent{}
	for _, p := range group {
		sure := f.collectCertainWrites(p)
		for _, key := range slices.Sorted(maps.Keys(sure)) {
			if by := taken[key]; by != nil {
				f.addProblem(sure[key].Key.Warnf(0, "state-race", "agents %s and %s run in parallel and both write the state key %s: the last one to finish wins", by.name, p.name, key).
					WithHint("use a separate key for each agent"))
			}
			taken[key] = p
		}
	}
}

// collectCertainWrites returns the writes that every run of an agent makes.
func (f *stateFlow) collectCertainWrites(p *resolvedAgent) map[string]tool.StateWrite {
	sure := map[string]tool.StateWrite{}
	use := p.cachedStateUse()
	if !p.plan.Node.Get("when").IsNull() || use.Guarded {
		return sure
	}
	for _, w := range use.Writes {
		if w.Sure {
			sure[w.Key.Value] = w
		}
	}
	switch p.plan.Kind.Name {
	case "SequentialAgent", "ParallelAgent", "LoopAgent":
		for _, sub := range p.subs {
			maps.Copy(sure, f.collectCertainWrites(sub))
		}
	}
	return sure
}

// checkGuards warns about conditions that control execution and read a key that clients may write,
// because a client can bypass them with a stateDelta.
func (f *stateFlow) checkGuards() { f.checkGuardsOf(f.root, keySet{}) }

// checkGuardsOf checks an agent and its descendants. settled are the keys that an earlier
// agent always overwrites with its answer.
func (f *stateFlow) checkGuardsOf(p *resolvedAgent, settled keySet) {
	use := p.cachedStateUse()
	own := settled
	if p.plan.Kind.Name == "LoopAgent" {
		own = maps.Clone(settled) // until is evaluated after the sub-agents
		for _, sub := range p.subs {
			f.addCertainAnswers(sub, own)
		}
	}
	for _, e := range use.Exprs {
		known := settled
		if e.Guard == "until" {
			known = own
		}
		f.checkGuard(e, known)
	}
	for _, t := range p.tools {
		for _, e := range t.collectStateUse().Exprs {
			f.checkGuard(e, settled)
		}
		if t.agent != nil {
			f.checkGuardsOf(t.agent, settled)
		}
	}
	inOrder := p.plan.Kind.Name == "SequentialAgent" || p.plan.Kind.Name == "LoopAgent"
	before := maps.Clone(settled)
	for _, sub := range p.subs {
		f.checkGuardsOf(sub, before)
		if inOrder {
			before = maps.Clone(before)
			f.addCertainAnswers(sub, before)
		}
	}
}

// addCertainAnswers adds the keys that an agent always overwrites with its answer. A
// key that `set` computes is not added, because its value may derive from a client's.
func (f *stateFlow) addCertainAnswers(p *resolvedAgent, into keySet) {
	for key, w := range f.collectCertainWrites(p) {
		if w.Verb == "output_key" {
			into[key] = true
		}
	}
}

func (f *stateFlow) checkGuard(e tool.StateExpr, settled keySet) {
	if e.Guard == "" || f.checkedGuards[e.Expr.Pos] {
		return
	}
	f.checkedGuards[e.Expr.Pos] = true
	for _, m := range template.UsesOf(e.Expr.Value, "state").Members {
		if f.warnedKeys[m.Name] || settled[m.Name] || !f.isClientWritable(m.Name) {
			continue
		}
		f.warnedKeys[m.Name] = true // one declaration fixes all guards with the key
		d := e.Expr.Warnf(m.Offset, "state-guard", "%s reads the state key %s, which clients may write", e.Guard, m.Name)
		f.addProblem(d.WithHint("%s", f.reserveKeyHint(m.Name)))
	}
}

// isClientWritable reports whether clients may write a key and the document does not declare that.
// Clients cannot write app: keys on a server with authentication. Misspelled keys have a separate
// warning.
func (f *stateFlow) isClientWritable(key string) bool {
	if !f.schema.Has(key) || !f.isKnownKey(key) && f.suggestKey(key) != "" {
		return false
	}
	_, declared := f.schema.Writable(key)
	return !declared && !strings.HasPrefix(key, session.AppPrefix)
}

// reserveKeyHint returns the hint to reserve a key for agents.
func (f *stateFlow) reserveKeyHint(key string) string {
	line := key + ": {writable: agent}"
	if strings.Contains(key, ":") {
		line = fmt.Sprintf("%q: {writable: agent}", key)
	}
	switch {
	case f.schema == nil:
		return "add to the root agent: state_schema: {" + line + "}"
	case f.schema.Declares(key):
		return "add writable: agent to " + key + " in the state_schema of the root agent"
	default:
		return "add to the state_schema of the root agent: " + line
	}
}

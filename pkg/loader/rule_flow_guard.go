package loader

import (
	"fmt"
	"maps"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// checkGuards warns of conditions that control execution and read a key that clients
// may write, because a client can bypass them with a stateDelta. settled are the keys
// that an earlier agent always overwrites with its answer.
func (f *stateFlow) checkGuards(p *resolvedAgent, settled keySet) {
	use := p.stateUse()
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
		for _, e := range t.stateUse().Exprs {
			f.checkGuard(e, settled)
		}
		if t.agent != nil {
			f.checkGuards(t.agent, settled)
		}
	}
	inOrder := p.plan.Kind.Name == "SequentialAgent" || p.plan.Kind.Name == "LoopAgent"
	before := maps.Clone(settled)
	for _, sub := range p.subs {
		f.checkGuards(sub, before)
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
		f.warnedKeys[m.Name] = true // one declaration fixes all guards of the key
		d := e.Expr.Warnf(m.Offset, "state-guard", "%s reads the state key %s, which clients may write", e.Guard, m.Name)
		f.addProblem(d.WithHint("%s", f.reserveKeyHint(m.Name)))
	}
}

// isClientWritable reports whether clients may write a key and the document does not
// declare that. Clients cannot write app: keys of a server with authentication.
// Misspelled keys have a separate warning.
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

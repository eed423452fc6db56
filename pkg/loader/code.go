package loader

import (
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// checkCode warns of agents that let their model run code when it cannot, those
// that are called as tools included. Above says which model an agent without
// one has; nil is the default.
func (j *job) checkCode(p *placed, above model.LLM) {
	if p == nil || j.ds.HasErrors() {
		return
	}
	if p.model != nil {
		above = p.model
	}
	if c, ok := p.plan.Config.(interface {
		BuiltInCode(n *spec.Node) *spec.Node
	}); ok {
		if at := c.BuiltInCode(p.plan.Node); at != nil && !model.RunsCode(j.orDefault(above)) {
			j.report(at.Warnf("code-executor", "the model of agent %s runs no code: this changes nothing", p.name).
				WithHint("models of the provider gemini do"))
		}
	}
	for _, sub := range p.subs {
		j.checkCode(sub, above)
	}
	for _, t := range p.tools {
		j.checkCode(t.agent, above)
	}
}

func (j *job) orDefault(m model.LLM) model.LLM {
	if m == nil {
		return j.defaultModel()
	}
	return m
}

package loader

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// checkCodeExecution warns of agents that let their model run code when it cannot, those
// that are called as tools included. Above says which model an agent without
// one has; nil is the default.
func (j *job) checkCodeExecution(ctx context.Context, p *resolvedAgent, above model.LLM) {
	if p == nil || j.ds.HasErrors() {
		return
	}
	if p.model != nil {
		above = p.model
	}
	if c, ok := p.plan.Config.(interface {
		BuiltInCode(n *spec.Node) *spec.Node
	}); ok {
		if at := c.BuiltInCode(p.plan.Node); at != nil && !model.RunsCode(j.modelOrDefault(ctx, above)) {
			j.report(at.Warnf("code-executor", "the model of agent %s runs no code: this changes nothing", p.name).
				WithHint("models of the provider gemini do"))
		}
	}
	for _, sub := range p.subs {
		j.checkCodeExecution(ctx, sub, above)
	}
	for _, t := range p.tools {
		j.checkCodeExecution(ctx, t.agent, above)
	}
}

func (j *job) modelOrDefault(ctx context.Context, m model.LLM) model.LLM {
	if m == nil {
		return j.buildDefaultModel(ctx)
	}
	return m
}

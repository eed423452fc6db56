package loader

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// checkCodeExecution warns of agents, including those called as tools, that enable
// code execution with a model that does not support it. above is the model that
// an agent without its own inherits; nil is the default model.
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
			j.report(at.Warnf("code-executor", "the model of agent %s does not support code execution: the setting has no effect", p.name).
				WithHint("use a model of the provider gemini"))
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

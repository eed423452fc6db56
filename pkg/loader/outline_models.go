package loader

import (
	"slices"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/spec"
)

// An ImplicitModel is the model of an agent that names none.
type ImplicitModel struct {
	// Name is the model's name, and From the agent that it is inherited from, or "" for the default.
	Name, From string
	// Pos is the agent's name in its document.
	Pos spec.Pos
}

// listImplicitModels returns the models of the agents in a tree that name none.
func (l *Loader) listImplicitModels(root *resolvedAgent) []ImplicitModel {
	var models []ImplicitModel
	var visit func(p *resolvedAgent, inherited, from string)
	visit = func(p *resolvedAgent, inherited, from string) {
		if p.modelRef != "" {
			inherited, from = p.modelRef, p.name
		}
		name := p.plan.Node.Get("name")
		if _, ok := p.plan.Config.(agentconfig.ModelConfig); ok && p.modelRef == "" && p.model == nil && name != nil {
			m := ImplicitModel{Name: inherited, From: from, Pos: name.Pos}
			if inherited == "" {
				m.Name = l.defaultModelName()
			}
			if m.Name != "" && !slices.Contains(models, m) {
				models = append(models, m)
			}
		}
		for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
			visit(sub, inherited, from)
		}
	}
	if root != nil {
		visit(root, "", "")
	}
	return models
}

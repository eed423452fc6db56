package loader

import (
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// stateUser is the config of a tool that uses the state.
type stateUser interface {
	StateUse(n *spec.Node) tool.StateUse
}

// routeChecker is a config whose ways on can be checked by the state's schema,
// which is nil where there is none.
type routeChecker interface {
	CheckRoutes(n *spec.Node, s *tool.StateSchema) spec.Diagnostics
}

// stateSchema is that of the app: the root agent's.
func stateSchema(root *resolvedAgent) *tool.StateSchema {
	n := root.plan.Node.Get("state_schema")
	if n.IsNull() {
		return nil
	}
	var c runtime.StateSchemaConfig
	c.DecodeSpec(n) // its problems were told when the agent was decoded
	return c.Schema
}

// checkState checks all agents and tools of the tree by the state's schema.
func (j *job) checkState(root *resolvedAgent) {
	if root == nil {
		return
	}
	schema := stateSchema(root)
	j.checkStateOf(root, schema)
	for _, p := range slices.Concat(root.subs, toolAgents(root.tools)) {
		j.checkStateBelow(p, schema)
	}
}

// checkStateBelow checks an agent that is not the root.
func (j *job) checkStateBelow(p *resolvedAgent, s *tool.StateSchema) {
	if at := p.plan.Node.Get("state_schema"); !at.IsNull() {
		j.report(at.Errorf("state-schema", "agent %s is not the root: the state has one schema, which the root agent has", p.name))
	}
	j.checkStateOf(p, s)
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		j.checkStateBelow(sub, s)
	}
}

// checkStateOf checks an agent and its tools.
func (j *job) checkStateOf(p *resolvedAgent, s *tool.StateSchema) {
	if c, ok := p.plan.Config.(routeChecker); ok {
		j.report(c.CheckRoutes(p.plan.Node, s)...)
	}
	j.report(s.CheckUse(p.stateUse())...)
	for _, t := range p.tools {
		j.report(s.CheckUse(t.stateUse())...)
	}
}

// stateUse is what the tool does with the state, but for the agent that it
// calls.
func (t *resolvedTool) stateUse() tool.StateUse {
	if t.use == nil {
		return tool.StateUse{Opaque: t.kind == ""} // a tool of the program
	}
	return t.use.get()
}

// stateUse is what the agent itself does with the state, its callbacks included.
func (p *resolvedAgent) stateUse() tool.StateUse { return p.use.get() }

// A lazyUse is found when it is asked for.
type lazyStateUse struct {
	find  func() tool.StateUse
	found *tool.StateUse
}

func (u *lazyStateUse) get() tool.StateUse {
	if u.found == nil {
		use := u.find()
		u.found = &use
	}
	return *u.found
}

// newLazyUse is what a tool of this config does with the state.
func newLazyUse(config any, n *spec.Node) *lazyStateUse {
	return &lazyStateUse{find: func() tool.StateUse {
		if c, ok := config.(stateUser); ok {
			return c.StateUse(n)
		}
		return tool.StateUse{}
	}}
}

func toolAgents(tools []*resolvedTool) []*resolvedAgent {
	var agents []*resolvedAgent
	for _, t := range tools {
		if t.agent != nil {
			agents = append(agents, t.agent)
		}
	}
	return agents
}

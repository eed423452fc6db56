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

// routeChecker is a config whose routes can be checked against the state schema, which
// may be nil.
type routeChecker interface {
	CheckRoutes(n *spec.Node, s *tool.StateSchema) spec.Diagnostics
}

// stateSchema returns the state schema of the app, which the root agent declares.
func stateSchema(root *resolvedAgent) *tool.StateSchema {
	n := root.plan.Node.Get("state_schema")
	if n.IsNull() {
		return nil
	}
	var c runtime.StateSchemaConfig
	c.DecodeSpec(n) // problems were reported when the agent was decoded
	return c.Schema
}

// checkState checks all agents and tools of the tree against the state schema.
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

// checkStateBelow checks an agent other than the root.
func (j *job) checkStateBelow(p *resolvedAgent, s *tool.StateSchema) {
	if at := p.plan.Node.Get("state_schema"); !at.IsNull() {
		j.report(at.Errorf("state-schema", "state_schema is allowed only on the root agent, not on agent %s", p.name))
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

// stateUse returns the state use of the tool, without the agent that it calls.
func (t *resolvedTool) stateUse() tool.StateUse {
	if t.use == nil {
		return tool.StateUse{Opaque: t.kind == ""} // a registered tool
	}
	return t.use.get()
}

// stateUse returns the state use of the agent itself, including its callbacks.
func (p *resolvedAgent) stateUse() tool.StateUse { return p.use.get() }

// A lazyStateUse is computed on first use.
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

// newLazyUse returns the state use of a tool with this config.
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

package loader

import (
	"slices"

	"agenthost/pkg/runtime"
)

// agentMode returns the mode that an LLM agent declares, or an empty one.
func agentMode(p *resolvedAgent) runtime.Mode {
	if at := p.plan.Node.Get("mode"); isLLMAgent(p) && !at.IsNull() {
		return runtime.Mode(at.Value)
	}
	return ""
}

// checkMode reports modes that do not fit the place of an agent in the tree.
func checkMode(c *agentCheck, p *resolvedAgent, above []*resolvedAgent) {
	mode, parent := agentMode(p), (*resolvedAgent)(nil)
	if len(above) > 0 {
		parent = above[len(above)-1]
	}
	switch {
	case mode == runtime.ModeSingleTurn && (parent == nil || !isLLMAgent(parent) && parent.plan.Kind.Name != "Workflow"):
		c.addProblem(p.plan.Node.Get("mode").Errorf("mode", "agent %s cannot have the mode single_turn: only sub-agents of an LLM agent and nodes of a Workflow can", p.name).
			WithHint("remove mode"))
	case parent != nil && agentMode(parent) == runtime.ModeSingleTurn && mode != runtime.ModeSingleTurn:
		d := p.plan.Node.Errorf("mode", "agent %s cannot be a sub-agent of %s, which has the mode single_turn: such an agent only delegates to sub-agents of the same mode", p.name, parent.name)
		if isLLMAgent(p) {
			d = d.WithHint("set mode: single_turn on agent %s", p.name)
		}
		c.addProblem(d)
	case parent != nil && isLLMAgent(parent) && mode == runtime.ModeSingleTurn:
		if slices.ContainsFunc(parent.tools, func(t *resolvedTool) bool { return slices.Contains(t.names, p.name) }) {
			c.addProblem(p.plan.Node.Get("mode").Errorf("mode", "agent %s becomes a tool of agent %s, which already has a tool of this name", p.name, parent.name).
				WithHint("rename the agent or the tool"))
		}
	}
}

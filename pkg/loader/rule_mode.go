package loader

import (
	"slices"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// agentMode returns the mode that an LLM agent declares, or an empty one.
func agentMode(p *resolvedAgent) runtime.Mode {
	if at := p.plan.Node.Get("mode"); isLLMAgent(p) && !at.IsNull() {
		return runtime.Mode(at.Value)
	}
	return ""
}

// isDelegate reports whether an agent is its parent's tool.
func isDelegate(p *resolvedAgent) bool {
	return agentMode(p) == runtime.ModeSingleTurn || agentMode(p) == runtime.ModeTask
}

// modeTools returns the names of tools that an agent's mode adds to an app.
func modeTools(p *resolvedAgent) []string {
	switch agentMode(p) {
	case runtime.ModeSingleTurn:
		return []string{p.name}
	case runtime.ModeTask:
		return []string{p.name, "finish_task"}
	}
	return nil
}

// checkMode reports modes that do not fit the agent's place in the tree.
func checkMode(c *agentCheck, p *resolvedAgent, above []*resolvedAgent) {
	c.checkChatNodes(p)
	var parent *resolvedAgent
	if len(above) > 0 {
		parent = above[len(above)-1]
	}
	switch agentMode(p) {
	case runtime.ModeTask:
		c.checkTask(p, above)
	case runtime.ModeSingleTurn:
		if parent == nil || !isLLMAgent(parent) && parent.plan.Kind.Name != "Workflow" {
			c.addProblem(p.plan.Node.Get("mode").Errorf("mode", "agent %s cannot have the mode single_turn: only an LLM agent's sub-agents and Workflow nodes can", p.name).
				WithHint("remove mode"))
			return
		}
	default:
		if parent != nil && agentMode(parent) == runtime.ModeSingleTurn {
			d := p.plan.Node.Errorf("mode", "agent %s cannot be a sub-agent of %s, which has the mode single_turn: such an agent only delegates to sub-agents with the same mode", p.name, parent.name)
			if isLLMAgent(p) {
				d = d.WithHint("set mode: single_turn on agent %s", p.name)
			}
			c.addProblem(d)
		}
	}
	if parent == nil || !isLLMAgent(parent) || !isDelegate(p) {
		return
	}
	if slices.ContainsFunc(parent.tools, func(t *resolvedTool) bool { return slices.Contains(t.names, p.name) }) {
		c.addProblem(p.plan.Node.Get("mode").Errorf("mode", "agent %s becomes a tool of agent %s, which already has a tool with this name", p.name, parent.name).
			WithHint("rename the agent or the tool"))
	}
}

// checkChatNodes rejects workflow nodes with the mode chat that do not follow START, as adk-python
// does.
func (c *agentCheck) checkChatNodes(p *resolvedAgent) {
	graph, ok := p.plan.Config.(agentconfig.EdgeConfig)
	if !ok {
		return
	}
	for i, sub := range p.subs {
		isLater := func(e runtime.Edge) bool { return e.To == i && e.From != runtime.Start }
		if agentMode(sub) == runtime.ModeChat && slices.ContainsFunc(graph.WorkflowEdges(), isLater) {
			c.addProblem(sub.plan.Node.Get("mode").Errorf("mode", "node %s cannot have the mode chat: only nodes that directly follow START can", sub.name).
				WithHint("remove mode, and set include_contents: default if the node needs the conversation"))
		}
	}
}

// checkTask checks an agent with the mode task.
func (c *agentCheck) checkTask(p *resolvedAgent, above []*resolvedAgent) {
	at := p.plan.Node.Get("mode")
	if len(p.subs) > 0 {
		c.addProblem(at.Errorf("mode", "agent %s cannot have sub-agents: its mode is task", p.name).
			WithHint("move its sub_agents to its parent"))
	}
	for _, t := range p.tools {
		if slices.Contains(t.names, "finish_task") {
			c.addProblem(t.at.Errorf("mode", "agent %s has a tool named finish_task, a name that is reserved for the mode task", p.name).
				WithHint("rename the tool"))
		}
	}
	isWorkflow := func(a *resolvedAgent) bool { return a.plan.Kind.Name == "Workflow" }
	switch isOther := func(a *resolvedAgent) bool { return !isWorkflow(a) }; {
	case len(above) > 0 && isWorkflow(above[len(above)-1]) && slices.ContainsFunc(above, isOther):
		c.addProblem(at.Errorf("mode", "node %s cannot have the mode task: all agents above it must be Workflows", p.name).
			WithHint("use mode: single_turn, or make the Workflow the root agent"))
	case len(above) > 0 && isWorkflow(above[len(above)-1]):
		if worker := p.plan.Node.Get("parallel_worker"); !worker.IsNull() && worker.Value == "true" {
			c.addProblem(at.Errorf("mode", "agent %s cannot have the mode task: it is a parallel_worker", p.name).
				WithHint("remove parallel_worker, or use mode: single_turn"))
		}
	case slices.ContainsFunc(above, func(a *resolvedAgent) bool { return !isLLMAgent(a) || isDelegate(a) }):
		c.addProblem(at.Errorf("mode", "agent %s cannot have the mode task: all agents above it must be LLM agents that talk with the user", p.name).
			WithHint("use mode: single_turn under an LLM agent, or make it a node of a Workflow"))
	}
}

// checkTaskNodes rejects nodes that talk with the user in an app that is not resumable: the
// workflow could not continue after the user's next message.
func checkTaskNodes(p *resolvedAgent, resumable bool) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, sub := range p.subs {
		if !resumable && p.plan.Kind.Name == "Workflow" && agentMode(sub) == runtime.ModeTask {
			ds = append(ds, sub.plan.Node.Get("mode").Errorf("resumability", "node %s cannot have the mode task: the app is not resumable", sub.name).
				WithHint("write resumability_config: {is_resumable: true} in app.yaml"))
		}
	}
	return ds
}

package loader

import (
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// reservedToolNames are tools and calls that the runtime makes; a tool of that name would
// stand in their place.
func reservedToolNames() []string {
	return []string{runtime.RequestConfirmation, runtime.RequestCredential, "set_model_response", "transfer_to_agent"}
}

// checkToolNames warns of tools that hide those of the runtime, or whose calls
// clients or models take for something else.
func (c *treeCheck) checkToolNames(p *resolvedAgent) {
	for _, t := range p.tools {
		if _, builtin := tool.Builtins().Lookup(t.kind); builtin {
			continue
		}
		for _, name := range t.listToolNames(c.ctx) {
			if why := describeReserved(name); why != "" {
				c.addProblem(t.at.Warnf("tool-name", "the tool %s has the name of %s", name, why).WithHint("give it another name"))
			}
		}
	}
}

// describeReserved says what a name stands for already; empty is nothing.
func describeReserved(name string) string {
	switch {
	case slices.Contains(reservedToolNames(), name):
		return "one that the runtime itself makes"
	case name == tool.RequestInput:
		return "calls of request_input, which clients show as questions"
	case name == "adk_framework":
		return "calls that ADK keeps from models: they would never see its answers"
	}
	return ""
}

package loader

import (
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// reservedToolNames returns the names of tools and calls of the runtime, which would
// replace a tool with such a name.
func reservedToolNames() []string {
	return []string{runtime.RequestConfirmation, runtime.RequestCredential, "set_model_response", "transfer_to_agent"}
}

// checkToolNames warns of tools with the names of runtime tools, or whose calls clients
// or models would misinterpret.
func (c *treeCheck) checkToolNames(p *resolvedAgent) {
	for _, t := range p.tools {
		if _, builtin := tool.Builtins().Lookup(t.kind); builtin {
			continue
		}
		for _, name := range t.listToolNames(c.ctx) {
			if why := describeReserved(name); why != "" {
				c.addProblem(t.at.Warnf("tool-name", "the tool name %s is reserved for %s", name, why).WithHint("rename the tool"))
			}
		}
	}
}

// describeReserved returns the use of a reserved name; empty if it is not reserved.
func describeReserved(name string) string {
	switch {
	case slices.Contains(reservedToolNames(), name):
		return "a tool or call of the runtime"
	case name == tool.RequestInput:
		return "calls of request_input, which clients show as questions"
	case name == "adk_framework":
		return "calls that ADK hides from models: the model would not get its responses"
	}
	return ""
}

package tool

// UnsupportedNames lists, sorted, the names without a dot that adk-python's
// google.adk.tools exports and that [Builtins] does not contain.
// AgentTool, which the runtime provides, McpToolset, which package mcptool
// provides, and the function tool classes, which the loader handles, are not
// included.
func UnsupportedNames() []string {
	var names []string
	for _, a := range unsupportedTools() {
		names = append(names, a.name)
	}
	return names
}

// UnsupportedReason returns why a tool of [UnsupportedNames] is not supported,
// as part of a sentence, or "" for any other name.
func UnsupportedReason(name string) string {
	for _, a := range unsupportedTools() {
		if a.name == name {
			return a.reason
		}
	}
	return ""
}

type unsupportedTool struct{ name, reason string }

func unsupportedTools() []unsupportedTool {
	const (
		class = "is a Python helper class, not a tool"
		later = "is an ADK tool that this version does not support"
		cloud = later + ": it requires a Google Cloud service"
	)
	return []unsupportedTool{
		{"APIHubToolset", cloud},
		{"ApiRegistry", cloud},
		{"AuthToolArguments", class},
		{"BaseTool", class},
		{"DiscoveryEngineSearchTool", cloud},
		{"ExampleTool", later + ": write the examples in the instruction"},
		{"RemoteMcpServer", later + ": use McpToolset or mcp with its URL"},
		{"SearchResultMode", class},
		{"ToolContext", class},
		{"TransferToAgentTool", "is added by the runtime to agents that may transfer; use transfer_to_agent"},
		{"VertexAiLoadProfilesTool", cloud},
		{"VertexAiSearchTool", cloud},
	}
}

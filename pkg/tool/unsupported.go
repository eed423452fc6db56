package tool

// UnsupportedNames lists the names without a dot that adk-python's google.adk.tools
// exports and that [Builtins] and [Toolsets] do not have, sorted. AgentTool, which the
// runtime offers, and the classes around functions, which the loader knows, are
// not among them.
func UnsupportedNames() []string {
	var names []string
	for _, a := range unsupportedTools() {
		names = append(names, a.name)
	}
	return names
}

// UnsupportedReason says why a tool that [UnsupportedNames] lists is not offered, as a part of a
// sentence; for any other name it is empty.
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
		class = "is a Python class to make tools with, not a tool"
		later = "is one of ADK's tools that this version does not have"
		cloud = later + ": it needs a service of Google Cloud"
	)
	return []unsupportedTool{
		{"APIHubToolset", cloud},
		{"ApiRegistry", cloud},
		{"AuthToolArguments", class},
		{"BaseTool", class},
		{"DiscoveryEngineSearchTool", cloud},
		{"ExampleTool", later + ": put the examples into the instruction"},
		{"RemoteMcpServer", later + ": name its url with McpToolset or mcp"},
		{"SearchResultMode", class},
		{"ToolContext", class},
		{"TransferToAgentTool", "is made by the runtime for agents that may transfer; name transfer_to_agent"},
		{"VertexAiLoadProfilesTool", cloud},
		{"VertexAiSearchTool", cloud},
	}
}

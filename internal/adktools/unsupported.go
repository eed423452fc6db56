package adktools

import "slices"

// An UnsupportedTool is an adk-python tool that documents cannot use.
type UnsupportedTool struct {
	// Name is its name without module.
	Name string
	// Reason completes a sentence that begins with the name.
	Reason string
	// Hint is what to use instead, or "".
	Hint string
}

// FindUnsupported returns an ADK tool that documents cannot use, by its name without module.
func FindUnsupported(name string) (UnsupportedTool, bool) {
	all := UnsupportedTools()
	at := slices.IndexFunc(all, func(t UnsupportedTool) bool { return t.Name == name })
	if at < 0 {
		return UnsupportedTool{}, false
	}
	return all[at], true
}

// UnsupportedTools lists adk-python's tools, and the helper classes that its module
// google.adk.tools exports, that documents cannot use. Other packages provide AgentTool, McpToolset
// and the function tool classes.
func UnsupportedTools() []UnsupportedTool {
	const (
		class    = "is a Python helper class, not a tool"
		python   = "calls a Python object"
		later    = "is not supported"
		document = "use openapi with the OpenAPI document of the API"
		toolbox  = "use mcp with the MCP Toolbox for Databases, which has these tools"
		rest     = "use http with the REST API of the service"
	)
	return []UnsupportedTool{
		{"AgentRegistry", later, "write the URL of the agent or of the MCP server in the app"},
		{"APIHubToolset", later, document},
		{"ApiRegistry", later, "use mcp with the URL of the server"},
		{"ApplicationIntegrationToolset", later, document},
		{"AuthenticatedFunctionTool", later, "use http with auth, or map the function in app.yaml under functions"},
		{"AuthToolArguments", class, ""},
		{"BaseTool", class, ""},
		{"BaseToolset", class, ""},
		{"BigQueryToolset", later, toolbox},
		{"BigtableToolset", later, toolbox},
		{"ComputerUseToolset", later, "use mcp with the MCP server of Playwright"},
		{"CrewaiTool", python, "use mcp or http"},
		{"DataAgentToolset", later, rest},
		{"EnvironmentToolset", later, "use command tools"},
		{"FilesRetrieval", later, "use load_memory, or mcp with a server that searches files"},
		{"GCSAdminToolset", later, rest},
		{"GCSToolset", later, rest},
		{"GoogleSearchAgentTool", later, "use agent with an agent that has google_search"},
		{"LangchainTool", python, "use mcp or http"},
		{"LlamaIndexRetrieval", python, "use load_memory, or mcp with a server that searches documents"},
		{"NodeTool", later, "use agent with the Workflow"},
		{"PubSubToolset", later, rest},
		{"RemoteMcpServer", later, "use McpToolset or mcp with its URL"},
		{"RestApiTool", later, document},
		{"SearchResultMode", class, ""},
		{"SpannerAdminToolset", later, toolbox},
		{"SpannerToolset", later, toolbox},
		{"ToolContext", class, ""},
		{"TransferToAgentTool", "is added by the runtime to agents that may transfer", "use transfer_to_agent"},
	}
}

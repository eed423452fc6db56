// Package adktools lists the tools of adk-python by name: those that documents cannot use, and
// those that run in this process or in the model's service.
package adktools

import "slices"

// IsBuiltin reports whether a name is that of a built-in tool of ADK, as documents write it. The
// toolsets of servers and documents, such as McpToolset, are none.
func IsBuiltin(name string) bool { return slices.Contains(BuiltinNames(), name) }

// BuiltinNames lists the built-in tools of ADK, sorted regardless of case.
func BuiltinNames() []string {
	return []string{
		"DiscoveryEngineSearchTool", "enterprise_web_search", "ExampleTool", "ExecuteBashTool", "exit_loop", "get_user_choice",
		"google_maps_grounding", "google_search", "load_artifacts", "load_memory", "load_web_page", "preload_memory",
		"request_input", "SkillToolset", "transfer_to_agent", "url_context", "VertexAiLoadProfilesTool",
		"VertexAiRagRetrieval", "VertexAiSearchTool",
	}
}

// Package adktools lists adk-python's tools by name: those that documents cannot use, and those
// that run in this process or in the model's service.
package adktools

import "slices"

// IsBuiltin reports whether ADK has a built-in tool with this name, as documents write it. Toolsets
// for servers and documents, such as McpToolset, do not count.
func IsBuiltin(name string) bool { return slices.Contains(BuiltinNames(), name) }

// BuiltinNames lists ADK's built-in tools, sorted regardless of case.
func BuiltinNames() []string {
	return []string{
		"DiscoveryEngineSearchTool", "enterprise_web_search", "ExampleTool", "ExecuteBashTool", "exit_loop", "get_user_choice",
		"google_maps_grounding", "google_search", "load_artifacts", "load_memory", "load_web_page", "preload_memory",
		"request_input", "SkillToolset", "transfer_to_agent", "url_context", "VertexAiLoadProfilesTool",
		"VertexAiRagRetrieval", "VertexAiSearchTool",
	}
}

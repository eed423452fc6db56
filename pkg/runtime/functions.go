package runtime

import (
	"agenthost/pkg/tool"
)

// Functions are the Go functions that documents can refer to by name. The zero
// value has none.
type Functions struct {
	// Callbacks can be used in the callback lists of the hooks that they have
	// functions for.
	Callbacks map[string]Callbacks
	// Tools can be used in lists of tools and in a ToolNode. Models see the
	// name in their Declaration.
	Tools map[string]tool.Tool
	// Nodes can be used in a FunctionNode.
	Nodes map[string]NodeFunc
	// CodeExecutors can be used in code_executor.
	CodeExecutors map[string]CodeExecutor
	// ContentFilters can be used in custom_filter of the plugin context_filter.
	ContentFilters map[string]ContentFilter
}

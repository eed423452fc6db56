package runtime

import (
	"agenthost/pkg/tool"
)

// Functions are the Go code of a program that documents may name, each kind by
// its names. The zero value has none.
type Functions struct {
	// Callbacks are named in lists of callbacks; a name counts in the lists of
	// those hooks that it has functions for.
	Callbacks map[string]Callbacks
	// Tools are named in lists of tools and in a ToolNode. Their Declaration
	// says what models know them as.
	Tools map[string]tool.Tool
	// Nodes are named in a FunctionNode.
	Nodes map[string]NodeFunc
	// CodeExecutors are named in code_executor.
	CodeExecutors map[string]CodeExecutor
	// ContentFilters are named in custom_filter of the plugin context_filter.
	ContentFilters map[string]ContentFilter
}

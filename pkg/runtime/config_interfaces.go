package runtime

import (
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// The config of an agent class, of an agent as a tool, or of a plugin implements those of
// the following interfaces that apply to it. The loader resolves and checks what they
// return; a config is valid YAML of its own without them.
type (
	// A ModelConfig has a model: its name, which may be empty, and the field that names it
	// as code, which may be nil.
	ModelConfig interface {
		ModelName() spec.Text
		ModelCodeNode() *spec.Node
	}
	// An AgentConfig refers to other agents: its sub-agents, or the agent that a tool
	// calls.
	AgentConfig interface{ AgentRefs() []*AgentRef }
	// A ToolConfig refers to tools.
	ToolConfig interface{ ToolRefs() []*ToolRef }
	// A FunctionConfig names Go functions, which Bind resolves.
	FunctionConfig interface {
		Bind(f *Functions) spec.Diagnostics
	}
	// A FileConfig names text files of the app.
	FileConfig interface {
		ReadFiles(read func(path string) (string, error)) spec.Diagnostics
	}
	// An InstructionConfig has instructions of a model.
	InstructionConfig interface{ Instructions() []spec.Text }
	// A CodeConfig may enable code execution of the model: BuiltInCode returns the setting
	// in the agent n, or nil.
	CodeConfig interface{ BuiltInCode(n *spec.Node) *spec.Node }
	// An EdgeConfig runs its sub-agents along edges.
	EdgeConfig interface{ WorkflowEdges() []Edge }
	// A RouteConfig has routes, which are checked against the state schema; it may be nil.
	RouteConfig interface {
		CheckRoutes(n *spec.Node, s *tool.StateSchema) spec.Diagnostics
	}
)

var (
	_ ModelConfig       = (*llmConfig)(nil)
	_ InstructionConfig = (*llmConfig)(nil)
	_ CodeConfig        = (*llmConfig)(nil)
	_ FileConfig        = (*llmConfig)(nil)
	_ AgentConfig       = (*llmConfig)(nil)
	_ AgentConfig       = (*workflowConfig)(nil)
	_ AgentConfig       = (*loopConfig)(nil)
	_ AgentConfig       = (*sequentialConfig)(nil)
	_ AgentConfig       = (*parallelConfig)(nil)
	_ AgentConfig       = (*routerConfig)(nil)
	_ AgentConfig       = (*agentToolConfig)(nil)
	_ AgentConfig       = (*agentKindConfig)(nil)
	_ ToolConfig        = (*llmConfig)(nil)
	_ ToolConfig        = (*toolNodeConfig)(nil)
	_ FunctionConfig    = (*llmConfig)(nil)
	_ FunctionConfig    = (*toolNodeConfig)(nil)
	_ FunctionConfig    = (*functionNodeConfig)(nil)
	_ FunctionConfig    = (*contextFilterConfig)(nil)
	_ EdgeConfig        = (*workflowConfig)(nil)
	_ RouteConfig       = (*routerConfig)(nil)
	_ tool.StateConfig  = (*agentToolConfig)(nil)
	_ tool.StateConfig  = (*agentKindConfig)(nil)
	_ spec.Checker      = (*llmConfig)(nil)
	_ spec.Checker      = (*workflowConfig)(nil)
	_ spec.Checker      = (*loopConfig)(nil)
	_ spec.Checker      = (*routerConfig)(nil)
	_ spec.Checker      = (*agentToolConfig)(nil)
	_ spec.Checker      = (*agentKindConfig)(nil)
	_ spec.Checker      = (*toolNodeConfig)(nil)
	_ spec.Checker      = (*functionNodeConfig)(nil)
)

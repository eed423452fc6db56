package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

// A CodeExecutor says who runs the code that a model writes.
type CodeExecutor string

// CodeBuiltIn is the model's own sandbox: its answers hold the code and what
// came of it (adk-python code_executors/built_in_code_executor.py).
const CodeBuiltIn CodeExecutor = "built_in"

// CodeExecutorAt returns the place of the setting, or nil.
func (c *llmConfig) CodeExecutorAt(n *spec.Node) *spec.Node {
	if c.CodeExecutor == "" {
		return nil
	}
	return n.Get("code_executor")
}

// offered adds the executor to the tools that the model is told of.
func (c CodeExecutor) offered(tools []*genai.Tool) []*genai.Tool {
	if c != CodeBuiltIn {
		return tools
	}
	return append(slices.Clip(tools), &genai.Tool{CodeExecution: &genai.ToolCodeExecution{}})
}

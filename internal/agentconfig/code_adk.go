package agentconfig

import (
	"strings"
)

// adkExecutorModule is the package with ADK's executors (adk-python code_executors/__init__.py).
const adkExecutorModule = "google.adk.code_executors."

// adkExecutorHints are the ADK classes without an executor, with what to use instead.
func adkExecutorHints() map[string]string {
	const hosted = "use built_in with a Gemini model, or an executor of the host: wasi, command or container"
	return map[string]string{
		"UnsafeLocalCodeExecutor":        "use wasi, or {name: command, args: {command: [python3, -I, -]}}, which the policy grants with a sandbox",
		"AgentEngineSandboxCodeExecutor": hosted,
		"CloudRunSandboxCodeExecutor":    hosted,
		"GkeCodeExecutor":                hosted,
		"VertexAiCodeExecutor":           hosted,
	}
}

// translateName replaces an ADK class name with the executor's name.
func (c *codeConfig) translateName(kinds ExecutorKinds) {
	class := adkExecutorClass(c.name.Value)
	if class == "BuiltInCodeExecutor" {
		c.name.Value = codeBuiltIn
		return
	}
	for _, k := range kinds {
		if x, ok := k.NewConfig().(ADKExecutor); ok && x.ADKClass() == class {
			c.name.Value = k.Name
		}
	}
}

// adkExecutorClass returns the class in a name, without its modules.
func adkExecutorClass(name string) string {
	if inner, ok := strings.CutPrefix(name, adkExecutorModule); ok {
		return inner[strings.LastIndexByte(inner, '.')+1:]
	}
	return name
}

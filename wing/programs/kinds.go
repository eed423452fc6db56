// Package programs runs apps' programs: it asks the host's policy for each call, gives each session
// a folder, and starts the program in the sandbox that its grant describes. Its tools and code
// executors describe such programs.
package programs

import (
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Kinds lists the kind command, which a document names as a one-key map.
func Kinds() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("command", "Runs a program that the host policy allows.", newCommand),
	}
}

// Builtins lists ExecuteBashTool, which documents name by `name:`.
func Builtins() spec.Kinds[tool.Env, tool.Set] {
	return spec.Kinds[tool.Env, tool.Set]{
		spec.NewKind("ExecuteBashTool", "Runs commands that the model writes, each after confirmation, if the host policy allows them; models call it execute_bash.", newBashTool),
	}
}

// Executors lists the code executors command and container. Their loader has Programs.
func Executors() loader.ExecutorKinds {
	const doc = "run programs that the host policy allows"
	return loader.ExecutorKinds{
		spec.NewKind("command", doc, newCommandExecutor),
		spec.NewKind("container", doc, newContainerExecutor),
	}
}

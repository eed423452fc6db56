package runtime

import (
	"log/slog"

	"agenthost/pkg/spec"
)

// PluginEnv has the dependencies of plugins.
type PluginEnv struct {
	// Logger is never nil.
	Logger *slog.Logger
}

// PluginKinds returns the plugins that app.yaml can use.
func PluginKinds() spec.Kinds[PluginEnv, *Plugin] {
	return spec.Kinds[PluginEnv, *Plugin]{
		spec.NewKind("add_to_memory", "Adds the events of each run to the memory when the run ends.", newAddToMemory),
		spec.NewKind("context_filter", "Sends models only the last turns of a conversation.", newContextFilter),
		spec.NewKind("global_instruction", "Puts an instruction before the instructions of every agent.", newGlobalInstruction),
		spec.NewKind("logging", "Logs the steps of each run.", newLogging),
		spec.NewKind("retry_and_reflect", "Returns guidance to the model when a tool fails, so that it retries.", newRetryAndReflect),
		spec.NewKind("save_files_as_artifacts", "Saves files in user messages as artifacts.", newSaveFiles),
	}
}

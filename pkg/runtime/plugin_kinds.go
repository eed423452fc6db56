package runtime

import (
	"log/slog"

	"agenthost/pkg/spec"
)

// PluginEnv is what building a plugin may use.
type PluginEnv struct {
	// Logger is never nil.
	Logger *slog.Logger
}

// PluginKinds lists every plugin that app.yaml may name.
func PluginKinds() spec.Kinds[PluginEnv, *Plugin] {
	return spec.Kinds[PluginEnv, *Plugin]{
		spec.NewKind("add_to_memory", "Remembers what was said, at the end of every run.", newAddToMemory),
		spec.NewKind("context_filter", "Shows models only the last turns of a conversation.", newContextFilter),
		spec.NewKind("global_instruction", "Tells something to every agent, first of all.", newGlobalInstruction),
		spec.NewKind("logging", "Writes what happens in a run to the host's log.", newLogging),
		spec.NewKind("retry_and_reflect", "Asks a model to think again when a tool fails.", newRetryAndReflect),
		spec.NewKind("save_files_as_artifacts", "Keeps files of the user's message as artifacts.", newSaveFiles),
	}
}

package runtime

import (
	"context"
	"log/slog"
	"slices"

	"agenthost/pkg/session"
)

type addToMemoryConfig struct{}

// newAddToMemory returns a plugin that adds every run to the memory, which ADK
// leaves to a callback of each app.
func newAddToMemory(_ context.Context, env PluginEnv, _ *addToMemoryConfig) (*Plugin, error) {
	return &Plugin{Name: "add_to_memory", AfterRun: func(ctx context.Context, inv *Invocation) error {
		inv.addRunToMemory(ctx, env.Logger)
		return nil
	}}, nil
}

// addRunToMemory adds only the events of this run, so that the cost does not grow
// with the session. Errors are logged only, because the answer has already been
// sent.
func (inv *Invocation) addRunToMemory(ctx context.Context, logger *slog.Logger) {
	err := (&callMemories{inv.run}).AddEvents(ctx, lastRunEvents(inv.run.sess.Events(), inv.run.id))
	if err != nil {
		inv.run.withRunAttrs(logger).WarnContext(ctx, "adding run to memory failed", "error", err)
	}
}

// lastRunEvents returns the trailing events that belong to an invocation.
func lastRunEvents(events []*session.Event, id string) []*session.Event {
	for i, ev := range slices.Backward(events) {
		if ev.InvocationID != id {
			return events[i+1:]
		}
	}
	return events
}

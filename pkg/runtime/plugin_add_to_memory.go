package runtime

import (
	"context"
	"log/slog"
	"slices"

	"agenthost/pkg/session"
)

type addToMemoryConfig struct{}

// newAddToMemory makes a plugin that does after every run what ADK leaves to a
// callback of each app.
func newAddToMemory(_ context.Context, env PluginEnv, _ *addToMemoryConfig) (*Plugin, error) {
	return &Plugin{Name: "add_to_memory", AfterRun: func(ctx context.Context, inv *Invocation) error {
		inv.addRunToMemory(ctx, env.Logger)
		return nil
	}}, nil
}

// addRunToMemory adds the events of this run only, so that a turn costs the same
// however long the session is. The answer has been given by then: that it
// cannot be remembered is for the log.
func (inv *Invocation) addRunToMemory(ctx context.Context, logger *slog.Logger) {
	err := (&callMemories{inv.run}).AddEvents(ctx, lastRunEvents(inv.run.sess.Events(), inv.run.id))
	if err != nil {
		inv.run.withRunAttrs(logger).WarnContext(ctx, "adding a run to the memory", "error", err)
	}
}

// lastRunEvents are the events at the end that belong to an invocation.
func lastRunEvents(events []*session.Event, id string) []*session.Event {
	for i, ev := range slices.Backward(events) {
		if ev.InvocationID != id {
			return events[i+1:]
		}
	}
	return events
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// pruneEvery is how often serve looks for sessions that are past their
// retention.
const pruneEvery = 10 * time.Minute

// pruneFlags are those of session prune.
type pruneFlags struct {
	sessionFlags
	olderThan string
	dryRun    bool
}

func newSessionPrune(io stdio) *cobra.Command {
	var f pruneFlags
	cmd := f.setupCommand(&cobra.Command{
		Use:   "prune APPDIR --older-than AGE",
		Short: "Delete the sessions that nothing has happened in for a while",
		Long: `Prune deletes the sessions of an app whose last event is older than AGE, such as
30d or 12h, with their events, state and artifacts. One that is run at the
moment is left alone. With retention: in app.yaml, serve does it by itself.`,
		Args: requireArgs(1, 1),
	}, func(ctx context.Context, args []string) error { return pruneSessions(ctx, io, &f, args[0]) })
	cmd.Flags().StringVar(&f.olderThan, "older-than", "", "how long ago the last event is, such as 30d")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "delete nothing, only say what would be deleted")
	return cmd
}

func pruneSessions(ctx context.Context, io stdio, f *pruneFlags, dir string) error {
	var age spec.Duration
	if ds := age.DecodeSpec(&spec.Node{Kind: spec.Scalar, Value: f.olderThan}); ds.HasErrors() || age == 0 {
		return fmt.Errorf("--older-than %q: write an age above zero, such as 30d, 12h or 1h30m", f.olderThan)
	}
	st, err := f.openStoreFor(ctx, requireDatabase)
	if err != nil {
		return err
	}
	defer st.Close()
	n, err := st.Prune(ctx, &store.PruneRequest{
		App: loader.AppName(dir), Before: time.Now().Add(-time.Duration(age)), DryRun: f.dryRun,
		Each: func(key session.Key) { fmt.Fprintf(io.out, "%s\t%s\n", key.ID, key.User) },
	})
	done := "deleted"
	if f.dryRun {
		done = "would be deleted"
	}
	fmt.Fprintf(io.err, "%d sessions %s\n", n, done)
	return failWith(err)
}

// pruneRegularly deletes sessions that are past their app's retention, until ctx ends.
func (m *serveMain) pruneRegularly(ctx context.Context) {
	round := time.NewTicker(pruneEvery)
	defer round.Stop()
	for {
		if p := safe.Call(func() { m.pruneExpired(ctx) }); p != nil {
			p.Log(m.logger, "deleting old sessions panicked")
		}
		select {
		case <-round.C:
		case <-ctx.Done():
			return
		}
	}
}

func (m *serveMain) pruneExpired(ctx context.Context) {
	for _, app := range m.host.Apps() {
		if app.Retention == 0 {
			continue
		}
		n, err := m.store.Prune(ctx, &store.PruneRequest{App: app.Name, Before: time.Now().Add(-app.Retention)})
		if n > 0 {
			m.logger.Info("sessions deleted that are past their retention", "app", app.Name, "sessions", n, "retention", app.Retention)
		}
		if err != nil && ctx.Err() == nil {
			m.logger.Warn("old sessions could not be deleted", "app", app.Name, "error", err)
		}
	}
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agenthost/internal/command"
	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// pruneEvery is the interval at which serve deletes sessions past their retention.
const pruneEvery = 10 * time.Minute

// pruneFlags are the flags of session prune.
type pruneFlags struct {
	sessionFlags
	olderThan string
	dryRun    bool
}

func newSessionPruneCommand(env command.Env) *cobra.Command {
	var f pruneFlags
	cmd := f.setupCommand(env, &cobra.Command{
		Use:   "prune APPDIR --older-than AGE",
		Short: "Delete sessions without recent events",
		Long: `Prune deletes the sessions of an app whose creation and last event are older than
AGE, such as 30d or 12h, with their events, state and artifacts. It skips sessions with a running
turn. With retention: in app.yaml, serve prunes sessions automatically.`,
		Args: command.RequireArgs(1, 1),
	}, func(ctx context.Context, args []string) error { return pruneSessions(ctx, env, &f, args[0]) })
	cmd.Flags().StringVar(&f.olderThan, "older-than", "", "minimum age of the last event, such as 30d")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "list the sessions without deleting them")
	return cmd
}

func pruneSessions(ctx context.Context, env command.Env, f *pruneFlags, dir string) error {
	var age spec.Duration
	if ds := age.DecodeSpec(&spec.Node{Kind: spec.Scalar, Value: f.olderThan}); ds.HasErrors() || age == 0 {
		return fmt.Errorf("--older-than must be a duration above zero, such as 30d, 12h or 1h30m, got %q", f.olderThan)
	}
	use := command.ChangeDatabase
	if f.dryRun {
		use = command.ReadDatabase
	}
	st, err := f.OpenStoreFor(ctx, use)
	if err != nil {
		return err
	}
	defer st.Close()
	n, err := st.Prune(ctx, &store.PruneRequest{
		App: loader.AppName(dir), Age: time.Duration(age), DryRun: f.dryRun,
		Each: func(key session.Key) { fmt.Fprintf(env.Out, "%s\t%s\n", key.ID, key.User) },
	})
	outcome := "deleted"
	if f.dryRun {
		outcome = "would be deleted"
	}
	fmt.Fprintf(env.Err, "%s %s\n", command.FormatCount(n, "session"), outcome)
	return command.FailWith(err)
}

// pruneRegularly deletes sessions past their app's retention every 10 minutes, until ctx
// ends. After a jump of the clock it waits for the next time, when the clock may be right
// again.
func (m *serveMain) pruneRegularly(ctx context.Context) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	began := time.Now()
	var clock jumpDetector
	for {
		now := time.Now()
		if jump := clock.measureJump(now, now.Sub(began)); jump > maxClockJump {
			m.logger.Warn("the clock was set forward; expired sessions are deleted at the next interval", "jump", jump, "interval", pruneEvery)
		} else if p := safe.Call(func() { m.pruneExpired(ctx) }); p != nil {
			p.Log(m.logger, "deleting expired sessions panicked")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// maxClockJump is how far the clock may be set forward between two prunings.
const maxClockJump = time.Minute

// A jumpDetector compares the clock, which can be set, with the time since the start, which
// cannot. A machine that was suspended looks like a clock that was set.
type jumpDetector struct {
	wall   time.Time
	uptime time.Duration
}

// measureJump returns how much further the clock went than the time since the last call.
func (d *jumpDetector) measureJump(wall time.Time, uptime time.Duration) (jump time.Duration) {
	wall = wall.Round(0) // without the monotonic reading
	if !d.wall.IsZero() {
		jump = wall.Sub(d.wall) - (uptime - d.uptime)
	}
	d.wall, d.uptime = wall, uptime
	return jump
}

func (m *serveMain) pruneExpired(ctx context.Context) {
	for _, app := range m.host.Apps() {
		if app.Retention() == 0 {
			continue
		}
		n, err := m.store.Prune(ctx, &store.PruneRequest{App: app.Name(), Age: app.Retention(), Interval: pruneEvery})
		if n > 0 {
			m.logger.Info("deleted expired sessions", "app", app.Name(), "sessions", n, "retention", app.Retention())
		}
		if err != nil && ctx.Err() == nil {
			m.logger.Warn("deleting expired sessions failed", "app", app.Name(), "error", err)
		}
	}
}

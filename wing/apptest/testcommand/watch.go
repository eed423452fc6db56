package testcommand

import (
	"context"
	"fmt"
	"time"

	"agenthost/internal/command"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// watchApps runs an app's tests when a file in its folder, or another file that the app or
// its tests read, changes, until ctx ends.
func (t *tester) watchApps(ctx context.Context, dirs []string) error {
	if err := command.CheckFolders(dirs); err != nil {
		return err
	}
	w := loader.NewWatch(t.loader, emptyHost{}, dirs, &loader.WatchOptions{
		Problems: t.env.Err, Tests: true, Gate: openGate,
		OnLoad: func(s loader.Status) { t.rerunTests(ctx, s) },
	})
	if err := w.Sync(ctx); err != nil {
		return command.FailWith(err)
	}
	return w.Run(ctx)
}

// openGate accepts every app, so that all tests run.
func openGate(context.Context, string, *runtime.App) spec.Diagnostics { return nil }

// rerunTests runs a reloaded app's tests and prints the results. The watch has already
// printed the problems in the app and its tests.
func (t *tester) rerunTests(ctx context.Context, s loader.Status) {
	if !s.OK {
		return
	}
	began := time.Now()
	r := &testReport{}
	t.testApp(ctx, s.Dir, r)
	r.problems, r.duration = nil, time.Since(began)
	fmt.Fprintf(t.env.Err, "%s %s: ", began.Format(time.TimeOnly), s.App)
	if err := t.writeReport(r); err != nil {
		fmt.Fprintf(t.env.Err, "%s\n", err)
	}
}

// emptyHost is a host that serves no apps.
type emptyHost struct{}

// Swap closes the app.
func (emptyHost) Swap(app *runtime.App) { app.Close() }

// Remove does nothing.
func (emptyHost) Remove(string) {}

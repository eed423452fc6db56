package main

import (
	"context"
	"fmt"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// watchApps runs the tests of an app whenever a file of its folder, or one that it or its
// tests read elsewhere, has changed, until ctx ends.
func (t *tester) watchApps(ctx context.Context, dirs []string) error {
	if err := checkFolders(dirs); err != nil {
		return err
	}
	w := loader.NewWatch(t.loader, emptyHost{}, dirs, &loader.WatchOptions{
		Problems: t.io.err, Tests: true, Gate: openGate,
		OnLoad: func(s loader.Status) { t.rerunTests(ctx, s) },
	})
	if err := w.Sync(ctx); err != nil {
		return failWith(err)
	}
	return w.Run(ctx)
}

// openGate holds nothing back: every app's tests run.
func openGate(context.Context, string, *runtime.App) spec.Diagnostics { return nil }

// rerunTests runs the tests of an app that was loaded, and prints what came of them. The
// watch has printed the problems of the app and of its tests.
func (t *tester) rerunTests(ctx context.Context, s loader.Status) {
	if !s.OK {
		return
	}
	began := time.Now()
	r := &testReport{}
	t.testApp(ctx, s.Dir, r)
	r.problems, r.duration = nil, time.Since(began)
	fmt.Fprintf(t.io.err, "%s %s: ", began.Format(time.TimeOnly), s.App)
	if err := t.writeReport(r); err != nil {
		fmt.Fprintf(t.io.err, "%s\n", err)
	}
}

// emptyHost serves nothing: apps are only looked at.
type emptyHost struct{}

// Swap lets go of the app.
func (emptyHost) Swap(app *runtime.App) { app.Close() }

// Remove has nothing to do.
func (emptyHost) Remove(string) {}

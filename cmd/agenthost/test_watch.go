package main

import (
	"context"
	"fmt"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// watch runs the tests of an app whenever its folder has changed, until ctx
// ends.
func (t *tester) watch(ctx context.Context, dirs []string) error {
	if err := checkFolders(dirs); err != nil {
		return err
	}
	w := loader.NewWatch(t.loader, emptyHost{}, dirs, &loader.WatchOptions{Problems: t.io.err, Gate: t.gate})
	if err := w.Sync(ctx); err != nil {
		return failed(err)
	}
	return w.Run(ctx)
}

// gate runs the tests of an app that was changed, and prints what came of them.
// It lets nothing in and keeps nothing out; the problems of the files of tests
// are told by the watch.
func (t *tester) gate(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	began := time.Now()
	r := &testReport{}
	t.app(ctx, dir, r)
	problems := r.problems
	r.problems, r.took = nil, time.Since(began)
	fmt.Fprintf(t.io.err, "%s %s: ", began.Format(time.TimeOnly), app.Name)
	if err := t.print(r); err != nil {
		fmt.Fprintf(t.io.err, "%s\n", err)
	}
	return problems
}

// emptyHost serves nothing: apps are only looked at.
type emptyHost struct{}

// Swap lets go of the app.
func (emptyHost) Swap(app *runtime.App) { app.Close() }

// Remove has nothing to do.
func (emptyHost) Remove(string) {}

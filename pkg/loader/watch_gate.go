package loader

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

var errNewerSave = errors.New("the app changed again")

// runGate passes an app through the gate. A newer save stops the gate, since its answer no
// longer matters, and finished is false.
func (w *Watch) runGate(ctx context.Context, a *watchedApp, app *runtime.App) (failures spec.Diagnostics, finished bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer safe.Recover(w.logPanic)
		if w.waitForSave(ctx, a) {
			cancel(errNewerSave)
		}
	})
	failures = w.opts.Gate(ctx, a.dir, app)
	cancel(nil)
	watching.Wait()
	if !errors.Is(context.Cause(ctx), errNewerSave) {
		return failures, true
	}
	w.opts.Logger.Info("gate stopped: the app changed again", "app", a.name, "revision", app.Revision())
	a.loadedHash, a.pendingHash = "", "" // even if the next save restores this content
	return nil, false
}

// waitForSave returns true when the files of an app differ from the loaded ones, or false
// when ctx ends. It looks when a poll was due.
func (w *Watch) waitForSave(ctx context.Context, a *watchedApp) bool {
	ticker := time.NewTicker(w.opts.Settle)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
		if !a.missed.Swap(false) {
			continue
		}
		if hash, _, err := w.hashApp(ctx, a); err == nil && hash != a.loadedHash {
			return ctx.Err() == nil
		}
	}
}

// gateApp is the default gate. A stored revision has passed its evals already: a restart, a
// second replica and a rollback do not run them again.
func (w *Watch) gateApp(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	checks := app.Reload().Gate
	if slices.Contains(checks, runtime.GateEvals) && w.isStored(ctx, app) {
		checks = slices.DeleteFunc(checks, func(check string) bool { return check == runtime.GateEvals })
	}
	return w.loader.runGate(ctx, dir, app, checks)
}

func (w *Watch) isStored(ctx context.Context, app *runtime.App) bool {
	if w.opts.Revisions == nil {
		return false
	}
	_, err := w.opts.Revisions.Get(ctx, app.Name(), app.Revision())
	return err == nil
}

// hasFailedEvals reports whether evals rejected the last change of an app. Models do not
// always answer the same: a requested reload runs them again.
func (w *Watch) hasFailedEvals(app string) bool {
	s, _ := w.Status(app)
	return slices.ContainsFunc(s.Diagnostics, func(d spec.Diagnostic) bool { return d.Rule == "eval-failed" })
}

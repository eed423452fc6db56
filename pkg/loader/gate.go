package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// RunGate runs the gates that the app configures with reload: {gate: […]}, in the order of
// [Kinds].Gates. It returns the failures.
func (l *Loader) RunGate(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	return l.runGateChecks(ctx, dir, app, app.Reload().Gate)
}

// runGateChecks runs some gates within the time budget of the app.
func (l *Loader) runGateChecks(ctx context.Context, dir string, app *runtime.App, names []string) spec.Diagnostics {
	limit := app.Reload().Budget.Time
	ctx, cancel := context.WithTimeoutCause(ctx, limit, NewBudgetError(fmt.Sprintf("time budget of %s", limit), "budget: {time: …}"))
	defer cancel()
	var ds spec.Diagnostics
	for _, name := range names {
		if !slices.ContainsFunc(l.kinds.Gates, func(g Gate) bool { return g.Name == name }) {
			g := GateRun{Dir: dir, rule: "value"}
			ds = append(ds, g.DescribeFailure("this program has no gate "+name))
		}
	}
	for _, g := range l.kinds.Gates {
		if slices.Contains(names, g.Name) && !ds.HasErrors() {
			ds = append(ds, g.Run(ctx, &GateRun{Loader: l, Dir: dir, App: app, rule: g.Rule})...)
		}
	}
	return ds
}

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

// gateApp is the default gate. A stored revision has passed its unsteady gates already: a
// restart, a second replica and a rollback do not run them again.
func (w *Watch) gateApp(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	names := app.Reload().Gate
	if slices.ContainsFunc(names, w.isUnsteadyGate) && w.isStored(ctx, app) {
		names = slices.DeleteFunc(slices.Clone(names), w.isUnsteadyGate)
	}
	return w.loader.runGateChecks(ctx, dir, app, names)
}

func (w *Watch) isUnsteadyGate(name string) bool {
	return slices.ContainsFunc(w.loader.kinds.Gates, func(g Gate) bool { return g.Name == name && g.Unsteady })
}

func (w *Watch) isStored(ctx context.Context, app *runtime.App) bool {
	if w.opts.Revisions == nil {
		return false
	}
	_, err := w.opts.Revisions.Get(ctx, app.Name(), app.Revision())
	return err == nil
}

// hasUnsteadyFailure reports whether an unsteady gate rejected the last change of an app:
// models do not always answer the same. A requested reload runs it again.
func (w *Watch) hasUnsteadyFailure(app string) bool {
	s, _ := w.Status(app)
	return slices.ContainsFunc(w.loader.kinds.Gates, func(g Gate) bool {
		return g.Unsteady && slices.ContainsFunc(s.Diagnostics, func(d spec.Diagnostic) bool { return d.Rule == g.Rule })
	})
}

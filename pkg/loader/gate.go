package loader

import (
	"context"
	"fmt"
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// The gate decides whether a loaded app reaches the host. The loader has no checks of its own for it:
// wings bring them (Kinds.Gates), such as the tests and the eval sets of the app, and app.yaml
// chooses them. They run in the order of the list until one fails, within one time budget.
//
// A gate that asks models is unsteady: it may fail once and pass the next time. Two rules follow.
// A stored revision has passed before, so that a restart, a second replica or a rollback never
// depends on a model's mood; and after an unsteady failure a requested reload runs the gate again,
// although no file has changed. Steady gates are repeated on each load, since they cost little and
// find what has changed around the app, such as a tool's program.
//
// Invariant: an app that has errors from its gate is never published, and the serving one stays.

// RunGate runs the gates that the app configures with reload: {gate: […]}, in [Kinds].Gates order.
// It returns the failures.
func (l *Loader) RunGate(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	return l.runGateChecks(ctx, &GateRun{Dir: dir, App: app}, app.Reload().Gate)
}

// runGateChecks runs some gates within the app's time budget.
func (l *Loader) runGateChecks(ctx context.Context, run *GateRun, names []string) spec.Diagnostics {
	limit := run.App.Reload().Budget.Time
	ctx, cancel := context.WithTimeoutCause(ctx, limit, NewBudgetError(fmt.Sprintf("time budget of %s", limit), "budget: {time: …}"))
	defer cancel()
	var ds spec.Diagnostics
	for _, name := range names {
		if !slices.ContainsFunc(l.kinds.Gates, func(g Gate) bool { return g.Name == name }) {
			g := GateRun{Dir: run.Dir, rule: "value"}
			ds = append(ds, g.DescribeFailure("this program has no gate "+name))
		}
	}
	for _, g := range l.kinds.Gates {
		if slices.Contains(names, g.Name) && !ds.HasErrors() {
			own := *run
			own.Loader, own.rule = l, g.Rule
			ds = append(ds, own.runReported(ctx, &g)...)
		}
	}
	return ds
}

// runReported runs a gate, and reports its beginning and its end.
func (g *GateRun) runReported(ctx context.Context, gate *Gate) spec.Diagnostics {
	if g.report == nil {
		return gate.Run(ctx, g)
	}
	g.report(ReportGateBegun, gate.Name)
	ds := gate.Run(ctx, g)
	kind, reason := ReportGatePassed, gate.Name
	if at := slices.IndexFunc(ds, func(d spec.Diagnostic) bool { return d.Severity == spec.Error }); at >= 0 {
		kind, reason = ReportGateFailed, gate.Name+": "+ds[at].Message
	} else if err := context.Cause(ctx); err != nil {
		kind, reason = ReportGateFailed, gate.Name+": "+err.Error()
	}
	g.report(kind, reason)
	return ds
}

// gateApp is the default gate. A stored revision has passed its unsteady gates already: a
// restart, a second replica and a rollback do not run them again.
func (w *Watch) gateApp(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	names := app.Reload().Gate
	if w.opts.Revisions != nil && slices.ContainsFunc(names, w.isUnsteadyGate) {
		if _, err := w.opts.Revisions.Get(ctx, app.Name(), app.Revision()); err == nil {
			names = slices.DeleteFunc(slices.Clone(names), w.isUnsteadyGate)
		}
	}
	return w.loader.runGateChecks(ctx, &GateRun{Dir: dir, App: app, Store: w.opts.Store, report: w.reportGate(app)}, names)
}

func (w *Watch) isUnsteadyGate(name string) bool {
	return slices.ContainsFunc(w.loader.kinds.Gates, func(g Gate) bool { return g.Name == name && g.Unsteady })
}

// hasUnsteadyFailure reports whether an unsteady gate rejected the last change of an app:
// models do not always answer the same. A requested reload runs it again.
func (w *Watch) hasUnsteadyFailure(s Status) bool {
	return slices.ContainsFunc(w.loader.kinds.Gates, func(g Gate) bool {
		return g.Unsteady && slices.ContainsFunc(s.Diagnostics, func(d spec.Diagnostic) bool { return d.Rule == g.Rule })
	})
}

// reportGate returns the function that reports an app's gates.
func (w *Watch) reportGate(app *runtime.App) func(kind, reason string) {
	status, _ := w.status.getStatus(app.Name())
	return func(kind, reason string) {
		w.AppendReport(Report{App: app.Name(), Time: w.opts.Clock(), Kind: kind, From: status.Revision, To: app.Revision(), Reason: reason})
	}
}

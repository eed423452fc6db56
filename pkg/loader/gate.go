package loader

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// RunGate runs the gate that the app configures with reload: {gate: […]}: with tests, all
// tests of the app must pass; with evals, then also its eval sets. It returns the failures.
func (l *Loader) RunGate(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	return l.runGateChecks(ctx, dir, app, app.Reload().Gate)
}

// runGateChecks runs some checks within the budget of the app. Evals call models, which costs
// money: they run only if the tests pass.
func (l *Loader) runGateChecks(ctx context.Context, dir string, app *runtime.App, checks []string) spec.Diagnostics {
	limit := app.Reload().Budget.Time
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &budgetError{fmt.Sprintf("time budget of %s", limit), "budget: {time: …}"})
	defer cancel()
	var ds spec.Diagnostics
	if slices.Contains(checks, runtime.GateTests) {
		ds = l.gateTests(ctx, dir, app)
	}
	if slices.Contains(checks, runtime.GateEvals) && !ds.HasErrors() {
		ds = append(ds, l.gateEvals(ctx, dir, app)...)
	}
	return ds
}

// A budgetError is the error of a gate that exceeds its budget.
type budgetError struct{ limit, setting string }

// Error names the limit.
func (e *budgetError) Error() string { return "the gate exceeded its " + e.limit }

// gateTests runs the tests of an app.
func (l *Loader) gateTests(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	suite, ds := l.Suite(ctx, dir)
	switch {
	case suite == nil:
		return ds
	case suite.Revision != app.Revision():
		return spec.Diagnostics{failedGate(dir, "test-failed", "the files changed before the tests ran; the tests run again")}
	}
	failures := make([]spec.Diagnostics, len(suite.Tests))
	var wg sync.WaitGroup
	free := make(chan struct{}, maxGateTests)
	for i, t := range suite.Tests {
		free <- struct{}{}
		if ctx.Err() != nil {
			failures[i] = spec.Diagnostics{stoppedGate(ctx, dir, "test-failed", fmt.Sprintf("%d of %d tests", i, len(suite.Tests)))}
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			defer safe.Recover(func(p *safe.Panic) {
				p.Log(l.opts.Logger, "test panicked", "app", app.Name(), "test", t.Name)
				failures[i] = spec.Diagnostics{failedGate(dir, "test-failed", "test "+t.Name+" panicked, which is a bug in agenthost: "+p.Error())}
			})
			ctx, cancel := context.WithTimeoutCause(ctx, gateTestTimeout, errors.New("the test exceeded the limit of 30s"))
			defer cancel()
			failures[i] = suite.Run(ctx, t).Diagnostics()
		})
	}
	wg.Wait()
	return slices.Concat(failures...)
}

func failedGate(dir, rule, message string) spec.Diagnostic {
	return spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: rule, Message: message}
}

// stoppedGate reports a gate that ended early. done is what had run.
func stoppedGate(ctx context.Context, dir, rule, done string) spec.Diagnostic {
	cause := context.Cause(ctx)
	d := failedGate(dir, rule, fmt.Sprintf("the gate stopped after %s: %s", done, cause))
	if e, ok := errors.AsType[*budgetError](cause); ok {
		d.Hint = "raise " + e.setting + " of reload in app.yaml"
	}
	return d
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

// gateApp is the default gate. A stored revision has passed its evals already: a restart, a
// second replica and a rollback do not run them again.
func (w *Watch) gateApp(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	checks := app.Reload().Gate
	if slices.Contains(checks, runtime.GateEvals) && w.isStored(ctx, app) {
		checks = slices.DeleteFunc(checks, func(check string) bool { return check == runtime.GateEvals })
	}
	return w.loader.runGateChecks(ctx, dir, app, checks)
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

// gateEvals runs the eval sets of an app on its own models and tools, within the budget of
// cost. Each case that does not pass is a problem.
func (l *Loader) gateEvals(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := app.Reload().Budget.Cost
	meter := &evalrun.CostMeter{Limit: limit, OnLimit: func(*evalrun.CostError) {
		cancel(&budgetError{fmt.Sprintf("cost budget of %g US dollars", limit), "budget: {cost: …}"})
	}}
	g, ds := l.openEvalGate(ctx, dir, app, meter)
	if g == nil {
		return ds
	}
	defer g.release()
	defer g.runner.App.Close()
	began := time.Now()
	ds = g.runJobs(ctx)
	if !ds.HasErrors() {
		l.opts.Logger.Info("evals passed", "app", app.Name(), "revision", app.Revision(), "cases", evalrun.CountCases(g.jobs), "cost_usd", meter.Spent(), "duration", time.Since(began))
	}
	return ds
}

// An evalGate is one run of an app's eval sets.
type evalGate struct {
	dir    string
	jobs   []*evalrun.Job
	places casePlaces
	// runner has the app, which also owns the models of judges.
	runner *evalrun.Runner
	// release releases the evaluation service.
	release func()
}

// openEvalGate loads the app, its eval sets and the judges for a run that the meter counts.
func (l *Loader) openEvalGate(ctx context.Context, dir string, app *runtime.App, meter *evalrun.CostMeter) (*evalGate, spec.Diagnostics) {
	metered := l.withModelWrapper(func(llm model.LLM) model.LLM { return evalrun.WrapModel(meter.WrapModel(llm)) })
	g := &evalGate{dir: dir, release: func() {}}
	var service eval.Service
	if app.Reload().Budget.Cost == 0 { // calls of the service have no price
		vertex, release, err := l.OpenVertexEvaluator(ctx, dir)
		if err != nil {
			return nil, spec.Diagnostics{failedGate(dir, "eval-failed", err.Error())}
		}
		if g.release = release; vertex != nil {
			service = vertex
		}
	}
	var models evalrun.Models
	got := metered.loadApp(ctx, dir, nil, func(ctx context.Context, r *resolver) {
		if g.jobs, g.places = r.planGatedEvals(ctx, service != nil); g.jobs != nil {
			models = r.resolveJudges(ctx, g.jobs)
		}
	})
	if got.app == nil {
		g.release()
		return nil, got.ds
	}
	if got.app.Revision() != app.Revision() {
		got.app.Close()
		g.release()
		return nil, spec.Diagnostics{failedGate(dir, "eval-failed", "the files changed before the evals ran; the evals run again")}
	}
	g.runner = &evalrun.Runner{
		App: got.app, Models: models, Service: service, Runs: 1, Parallel: maxGateCases, Custom: l.opts.Metrics, Logger: l.opts.Logger,
		Timeout: 2 * maxBudgetTime, // the budget ends conversations
	}
	return g, nil
}

// withModelWrapper returns a loader that shares connections and logins with l, and wraps
// all models.
func (l *Loader) withModelWrapper(wrap func(model.LLM) model.LLM) *Loader {
	own := *l
	own.opts.WrapModel = func(llm model.LLM) model.LLM { return wrap(l.opts.WrapModel(llm)) }
	own.opts.MissingKey = nil
	if own.opts.Model != nil {
		own.opts.Model = wrap(own.opts.Model)
	}
	return &own
}

// runJobs runs all sets, and returns a problem for each case that does not pass. If the
// gate stops early, that is a problem as well.
func (g *evalGate) runJobs(ctx context.Context) spec.Diagnostics {
	var ds spec.Diagnostics
	done := 0
	for _, job := range g.jobs {
		log := &evalrun.MemoryLog{}
		err := g.runner.Run(ctx, job, log)
		for _, o := range log.Outcomes(job) {
			done++
			if o.Status != eval.Passed {
				ds = append(ds, g.describeFailure(o))
			}
		}
		if err != nil {
			return append(ds, stoppedGate(ctx, g.dir, "eval-failed", fmt.Sprintf("%d of %d eval cases", done, evalrun.CountCases(g.jobs))))
		}
	}
	return ds
}

// describeFailure names the set, the case, and each metric with its score and threshold.
func (g *evalGate) describeFailure(o *evalrun.Outcome) spec.Diagnostic {
	var reasons []string
	for _, m := range o.Metrics {
		switch {
		case m.Status == eval.Failed && m.Score != nil:
			reasons = append(reasons, fmt.Sprintf("%s is %.3g, required %g", m.Metric, *m.Score, *evalrun.Threshold(m)))
		case m.Status == eval.NotEvaluated:
			reasons = append(reasons, m.Metric+" was not evaluated")
		}
	}
	for _, note := range o.Runs[0].Notes {
		if note.Reason != "" && (note.Metric == "" || isNotEvaluated(o, note.Metric)) {
			reasons = append(reasons, shortenReason(note.Reason))
		}
	}
	what := "failed"
	if o.Status == eval.NotEvaluated {
		what = "was not evaluated"
	}
	name := o.SetID + ":" + o.CaseID
	at, ok := g.places[name]
	if !ok {
		at = spec.Pos{File: filepath.ToSlash(g.dir)}
	}
	return spec.Diagnostic{
		Pos: at, Rule: "eval-failed", Message: fmt.Sprintf("eval case %s %s: %s", name, what, strings.Join(reasons, "; ")),
		Hint: fmt.Sprintf("run agenthost eval %s %s", filepath.ToSlash(g.dir), name),
	}
}

func isNotEvaluated(o *evalrun.Outcome, metric string) bool {
	for _, m := range o.Metrics {
		if m.Metric == metric {
			return m.Status == eval.NotEvaluated
		}
	}
	return false
}

// maxReason limits the length of a reason in a diagnostic: it may be the answer of a judge.
const maxReason = 300

func shortenReason(reason string) string {
	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

package evalgate

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// maxGateCases limits the concurrent cases, which mostly wait for models.
const maxGateCases = 4

// runGate runs an app's eval sets on its own models and tools, within the cost budget. Each
// case that does not pass is a problem.
func (k *Kind) runGate(ctx context.Context, run *loader.GateRun) spec.Diagnostics {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := run.App.Reload().Budget.Cost
	meter := &evalrun.CostMeter{Limit: limit, OnLimit: func(*evalrun.CostError) {
		cancel(loader.NewBudgetError(fmt.Sprintf("cost budget of %g US dollars", limit), "budget: {cost: …}"))
	}}
	g, ds := k.openEvalGate(ctx, run, meter)
	if g == nil {
		return ds
	}
	defer g.release()
	defer g.runner.App.Close()
	began := time.Now()
	ds = g.runJobs(ctx)
	if !ds.HasErrors() {
		run.Loader.Logger().Info("evals passed", "app", run.App.Name(), "revision", run.App.Revision(), "cases", evalrun.CountCases(g.jobs), "cost_usd", meter.Spent(), "duration", time.Since(began))
	}
	return ds
}

// An evalGate is one run of an app's eval sets.
type evalGate struct {
	run    *loader.GateRun
	jobs   []*evalrun.Job
	places casePlaces
	// runner has the app, which also owns the judge models.
	runner *evalrun.Runner
	// release releases the evaluation service.
	release func()
}

// openEvalGate loads the app, its eval sets and the judges for a run that the meter counts.
func (k *Kind) openEvalGate(ctx context.Context, run *loader.GateRun, meter *evalrun.CostMeter) (*evalGate, spec.Diagnostics) {
	metered := run.Loader.WrapModels(func(llm model.LLM) model.LLM { return evalrun.WrapModel(meter.WrapModel(llm)) })
	g := &evalGate{run: run, release: func() {}}
	var service eval.Service
	if run.App.Reload().Budget.Cost == 0 { // calls of the service have no price
		vertex, release, err := run.Loader.OpenEvaluator(ctx, run.Dir)
		if err != nil {
			return nil, spec.Diagnostics{run.DescribeFailure(err.Error())}
		}
		if g.release = release; vertex != nil {
			service = vertex
		}
	}
	var models evalrun.Models
	app, ds := metered.Inspect(ctx, run.Dir, func(ctx context.Context, in *loader.Inspection) {
		if g.jobs, g.places = k.planGatedEvals(ctx, in, service != nil); g.jobs != nil {
			models = resolveJudges(ctx, in, g.jobs)
		}
	})
	if app == nil {
		g.release()
		return nil, ds
	}
	if app.Revision() != run.App.Revision() {
		app.Close()
		g.release()
		return nil, spec.Diagnostics{run.DescribeFailure("the files changed before the evals ran; the evals run again")}
	}
	g.runner = &evalrun.Runner{
		App: app, Models: models, Service: service, Runs: 1, Parallel: maxGateCases, Custom: k.Metrics, Logger: run.Loader.Logger(),
		Timeout: 2 * run.App.Reload().Budget.Time, // the budget ends conversations
	}
	return g, nil
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
			return append(ds, g.run.DescribeStop(ctx, fmt.Sprintf("%d of %d eval cases", done, evalrun.CountCases(g.jobs))))
		}
	}
	return ds
}

// describeFailure names the set, the case, and each metric with its score and threshold.
func (g *evalGate) describeFailure(o *eval.Outcome) spec.Diagnostic {
	var reasons []string
	for _, m := range o.Metrics {
		switch {
		case m.Status == eval.Failed && m.Score != nil:
			reasons = append(reasons, fmt.Sprintf("%s is %.3g, required %g", m.Metric, *m.Score, *m.RequiredScore()))
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
		at = spec.Pos{File: filepath.ToSlash(g.run.Dir)}
	}
	return spec.Diagnostic{
		Pos: at, Rule: "eval-failed", Message: fmt.Sprintf("eval case %s %s: %s", name, what, strings.Join(reasons, "; ")),
		Hint: fmt.Sprintf("run agenthost eval %s %s", filepath.ToSlash(g.run.Dir), name),
	}
}

func isNotEvaluated(o *eval.Outcome, metric string) bool {
	for _, m := range o.Metrics {
		if m.Metric == metric {
			return m.Status == eval.NotEvaluated
		}
	}
	return false
}

// maxReason limits a reason's length in a diagnostic: it may be a judge's answer.
const maxReason = 300

func shortenReason(reason string) string {
	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > maxReason {
		reason = strings.ToValidUTF8(reason[:maxReason], "") + "…"
	}
	return reason
}

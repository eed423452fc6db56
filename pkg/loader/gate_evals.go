package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agenthost/internal/evalfile"
	"agenthost/internal/evalrun"
	"agenthost/pkg/eval"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

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

// casePlaces are the positions of cases by SET:CASE.
type casePlaces map[string]spec.Pos

// planGatedEvals reads the eval sets that the gate of the app runs, and reports their
// problems. The jobs are nil if there are errors, or if evals do not gate the app. vertex
// reports that the evaluation service of Vertex AI is available.
func (r *resolver) planGatedEvals(ctx context.Context, vertex bool) ([]*evalrun.Job, casePlaces) {
	options := r.app.doc.reloadOptions()
	if r.ds.HasErrors() || options == nil || !slices.Contains(options.Gate, runtime.GateEvals) {
		return nil, nil
	}
	at := r.app.appNode.Get("reload").Get("gate")
	if named := r.app.appNode.Get("reload").Get("eval_sets"); named != nil {
		at = named
	}
	places := casePlaces{}
	jobs, err := evalrun.PlanSets(r.readEvalSets(ctx, places), eval.ParseSelections(options.EvalSets), &evalrun.PlanOptions{Custom: r.metricNames().Metrics, Vertex: vertex, Read: r.readEvalConfig})
	problems := spec.Diagnostics(nil)
	switch {
	case r.ds.HasErrors():
		return nil, nil
	case errors.Is(err, evalrun.ErrNoSets):
		r.report(at.Errorf("value", "evals gate the app, which has no eval set").WithHint("write one in a file such as first.eval.yaml, or remove evals from gate"))
		return nil, nil
	case errors.As(err, &problems):
		r.report(problems...)
		return nil, nil
	case err != nil:
		r.report(at.Errorf("value", "%s", err))
		return nil, nil
	}
	return jobs, places
}

// resolveJudges returns the models of judges and simulated users. With a budget of cost,
// it rejects models of the app and judges that have no price.
func (r *resolver) resolveJudges(ctx context.Context, jobs []*evalrun.Job) evalrun.Models {
	at := r.app.appNode.Get("reload").Get("gate")
	models := evalrun.Models{}
	var unpriced []string
	for _, name := range evalrun.ModelNames(jobs) {
		models[name] = r.resolveModel(ctx, spec.Text{Value: name, Pos: at.Pos})
		if models[name] != nil && r.loader.opts.Model == nil && !r.hasPrice(name) {
			unpriced = append(unpriced, name)
		}
	}
	if cost := r.app.appNode.Get("reload").Get("budget").Get("cost"); cost != nil {
		unpriced = append(unpriced, r.listUnpricedModels(ctx)...)
		slices.Sort(unpriced)
		for _, name := range slices.Compact(unpriced) {
			r.report(missingPrice(cost, "value", "cost", name))
		}
	}
	return models
}

// readEvalSets reads all eval sets of the app with the places of their cases.
func (r *resolver) readEvalSets(ctx context.Context, places casePlaces) []*evalrun.SetFile {
	var sets []*evalrun.SetFile
	for _, file := range r.findFiles(ctx, "eval sets", evalfile.Suffix, eval.SetSuffix, eval.TestSuffix) {
		at := r.src.displayPath(file)
		text, err := r.src.readEvalFile(file)
		var set *evalrun.SetFile
		if err == nil {
			set, err = evalrun.DecodeSet(at, text, r.metricNames())
		}
		switch problems := spec.Diagnostics(nil); {
		case err == nil:
			sets = append(sets, set)
			places.addCases(set.ID, at, text)
		case isLimitError(err): // reported at the end of the load
		case errors.As(err, &problems):
			r.report(problems...)
		default:
			r.report(spec.Diagnostic{Pos: spec.Pos{File: at}, Rule: "file", Message: "cannot read the file: " + formatOSError(err)})
		}
	}
	return sets
}

// metricNames are the names of the metrics that the Go program has registered.
func (r *resolver) metricNames() *evalfile.Names {
	return &evalfile.Names{Metrics: slices.Sorted(maps.Keys(r.loader.opts.Metrics))}
}

// addCases adds the places of the cases of a set in any form.
func (p casePlaces) addCases(set, file string, text []byte) {
	n, _ := spec.Parse(file, text)
	if n == nil {
		return
	}
	items := n.Items // the oldest form
	for _, key := range []string{"cases", "eval_cases", "evalCases"} {
		if list := n.Get(key); list != nil {
			items = list.Items
		}
	}
	for _, item := range items {
		for _, key := range []string{"name", "eval_id", "evalId"} {
			if id := item.Get(key); id != nil && id.Kind == spec.Scalar {
				p[set+":"+id.Value] = id.Pos
			}
		}
	}
}

// readEvalConfig reads the criteria next to a set.
func (r *resolver) readEvalConfig(file string) ([]byte, error) {
	rel := strings.TrimPrefix(filepath.ToSlash(file), r.src.displayDir+"/")
	if !r.src.fileExists(rel) {
		return nil, fs.ErrNotExist
	}
	return r.src.readEvalFile(rel)
}

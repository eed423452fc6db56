// Package evaltest runs an app's eval sets in go test, as ADK's AgentEvaluator does in pytest:
//
//	func TestDesk(t *testing.T) {
//		evaltest.Run(t, "apps/desk", &evaltest.Options{Sets: []string{"orders"}, Runs: 2})
//	}
//
// Each case is a subtest, SET/CASE. One that does not pass fails with the report that
// agenthost eval prints: its scores and thresholds, the reasons, and the turns with their
// expectations. The app's models and tools are called. A Go program replaces them, and
// registers its own metrics, with the loader's options.
package evaltest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalreport"
	"agenthost/wing/evaluation/evalrun"
)

// Options configure [Run]. The zero value runs all sets in the app once.
type Options struct {
	// Sets are eval sets by file, name or ID, each with optional cases, such as
	// "orders:status,refund"; empty for all sets.
	Sets []string
	// Runs is how often each case runs, at least 1. Scores are means over the turns in all
	// runs. ADK's AgentEvaluator runs each case twice.
	Runs int
	// Metrics are metrics by name or short name, each with an optional threshold, such as
	// "response_match=0.7"; empty for the config's.
	Metrics []string
	// Config is a file with criteria; empty for the set's, or for the test_config.json next
	// to it.
	Config string
	// Judge is the model for judges and simulated users whose config names none; empty for
	// [eval.DefaultJudgeModel].
	Judge string
	// AllowNotEvaluated lets a case pass by its other metrics if one was not evaluated, as
	// ADK does.
	AllowNotEvaluated bool
	// Timeout limits a case's conversation; 0 is 5 minutes.
	Timeout time.Duration
	// Kinds are what the app's documents may name.
	Kinds loader.Kinds
	// Custom are the Go program's metrics, which sets and configs may name.
	Custom map[string]eval.MeasureFunc
	// Loader has the Go program's models and tools; nil for none.
	Loader *loader.Options
}

const defaultTimeout = 5 * time.Minute

// Run runs eval sets from the app in a folder. Cases are parallel subtests, which -run
// selects and -parallel limits. The test fails if the app, a set or a judge has problems, or
// if the sets have no cases.
func Run(t *testing.T, dir string, opts *Options) {
	t.Helper()
	o := Options{}
	if opts != nil {
		o = *opts
	}
	lo := loader.Options{}
	if o.Loader != nil {
		lo = *o.Loader
	}
	lo.WrapModel = wrapModel(lo.WrapModel)
	l := loader.New(o.Kinds, &lo)
	service := openService(t, l, dir)
	jobs, err := evalrun.Plan(dir, eval.ParseSelections(o.Sets), &evalrun.PlanOptions{
		Config: o.Config, Metrics: o.Metrics, Custom: slices.Sorted(maps.Keys(o.Custom)), Judge: o.Judge, AllowNotEvaluated: o.AllowNotEvaluated, Vertex: service != nil,
	})
	if err != nil {
		t.Fatalf("cannot evaluate %s: %s", dir, formatError(err))
	}
	runner := openRunner(t, l, dir, evalrun.ModelNames(jobs))
	runner.Service, runner.Custom, runner.Logger = service, o.Custom, lo.Logger
	runner.Runs, runner.Parallel, runner.Timeout = max(o.Runs, 1), max(o.Runs, 1), o.Timeout
	if runner.Timeout <= 0 {
		runner.Timeout = defaultTimeout
	}
	for _, job := range jobs {
		t.Run(job.Set.ID, func(t *testing.T) {
			for _, c := range job.Cases {
				t.Run(c.ID, func(t *testing.T) {
					t.Parallel()
					runCase(t, runner, job, c)
				})
			}
		})
	}
}

// openRunner loads the app and the judge models. They are closed after all subtests.
func openRunner(t *testing.T, l *loader.Loader, dir string, judges []string) *evalrun.Runner {
	t.Helper()
	app, ds := l.Load(t.Context(), dir)
	if app == nil {
		t.Fatalf("cannot load %s: %s", dir, formatError(ds.Err()))
	}
	t.Cleanup(func() { app.Close() })
	models, release, ds := l.OpenModels(t.Context(), dir, judges)
	if models == nil {
		t.Fatalf("cannot open the judge models: %s", formatError(ds.Err()))
	}
	t.Cleanup(release)
	return &evalrun.Runner{App: app, Models: models}
}

// openService opens Vertex AI's evaluation service; nil without credentials.
func openService(t *testing.T, l *loader.Loader, dir string) eval.Service {
	t.Helper()
	service, release, err := l.OpenEvaluator(t.Context(), dir)
	if err != nil {
		t.Fatalf("cannot evaluate %s: %s", dir, formatError(err))
	}
	t.Cleanup(release)
	if service == nil {
		return nil
	}
	return service
}

func wrapModel(own func(model.LLM) model.LLM) func(model.LLM) model.LLM {
	return func(llm model.LLM) model.LLM {
		if own != nil {
			llm = own(llm)
		}
		return evalrun.WrapModel(llm)
	}
}

// runCase runs a case with all its repetitions, and fails with its report.
func runCase(t *testing.T, runner *evalrun.Runner, job *evalrun.Job, c *eval.Case) {
	t.Helper()
	one := *job
	one.Cases = []*eval.Case{c}
	log := &evalrun.MemoryLog{}
	if err := runner.Run(t.Context(), &one, log); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	outcomes := log.Outcomes(&one)
	if len(outcomes) == 0 {
		t.Fatal("the case was canceled")
	}
	report := evalreport.FormatDetails(outcomes[0], testing.Verbose())
	switch {
	case outcomes[0].Status != eval.Passed:
		t.Error("\n" + report)
	case testing.Verbose():
		t.Log("\n" + report)
	}
}

// formatError formats an error with the source lines and hints in its diagnostics.
func formatError(err error) string {
	ds := spec.Diagnostics(nil)
	if !errors.As(err, &ds) {
		return err.Error()
	}
	var b strings.Builder
	b.WriteString("\n")
	_ = ds.WriteText(&b) // never fails
	return b.String()
}

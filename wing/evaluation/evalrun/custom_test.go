package evalrun_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalgate"
	"agenthost/wing/evaluation/evalrun"
)

// Go functions are metrics: by their name, and by the function that an ADK config declares.
// One that fails or panics is not evaluated. Without them the names are unknown.
func TestRegisteredMetrics(t *testing.T) {
	measure := func(score float64) eval.MeasureFunc {
		return func(_ context.Context, in *eval.Input) (*eval.Scores, error) {
			return eval.ScoreTurns(in, func(int) *float64 { return &score }), nil
		}
	}
	custom := map[string]eval.MeasureFunc{
		"tone": measure(0.7), "checks.length": measure(3),
		"fails":  func(context.Context, *eval.Input) (*eval.Scores, error) { return nil, errors.New("no dictionary") },
		"panics": func(context.Context, *eval.Input) (*eval.Scores, error) { panic("no dictionary") },
	}
	dir := testenv.Files(t, "shop", map[string][]byte{
		"root_agent.yaml": []byte(rootAgent), "app.yaml": []byte(demoApp), "demo.script.yaml": []byte("- text: Hello.\n"),
		"go.eval.yaml":           []byte("metrics: {tone: 0.5, fails: 1, panics: 1}\ncases: [{name: a, user: hi}]\n"),
		"adk/adk.evalset.json":   []byte(caseSet(1)),
		"adk/" + eval.ConfigFile: []byte(`{"criteria": {"size": 4}, "custom_metrics": {"size": {"code_config": {"name": "checks.length"}}}}`),
	})
	kinds := testenv.Kinds()
	kinds.Files = []loader.FileKind{(&evalgate.Kind{Metrics: custom}).Files()}
	l := loader.New(kinds, &loader.Options{WrapModel: evalrun.WrapModel})
	if ds := l.Check(t.Context(), dir); len(ds) > 0 {
		t.Errorf("Check = %v, want no problem", ds)
	}
	app, ds := l.Load(t.Context(), dir)
	if app == nil {
		t.Fatal(ds)
	}
	defer app.Close()
	jobs, err := evalrun.Plan(dir, nil, &evalrun.PlanOptions{Custom: []string{"tone", "checks.length", "fails", "panics"}})
	if err != nil {
		t.Fatal(err)
	}
	r := &evalrun.Runner{App: app, Custom: custom, Runs: 1, Parallel: 1, Timeout: time.Minute}
	var got []string
	for _, job := range jobs {
		journal, err := job.Begin(t.TempDir(), evalrun.Subject{App: "shop", Revision: "r1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context(), job, journal); err != nil {
			t.Fatal(err)
		}
		for result, err := range journal.Results() {
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range result.Overall[:len(job.Measures)] {
				got = append(got, m.Metric+" "+m.Status.String())
			}
			for _, n := range result.Notes {
				got = append(got, n.Metric+": "+n.Reason)
			}
		}
		journal.Close()
	}
	want := "size FAILED; tone PASSED; fails NOT_EVALUATED; panics NOT_EVALUATED; fails: no dictionary; panics: panic: no dictionary"
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if _, err := evalrun.Plan(dir, nil, &evalrun.PlanOptions{}); err == nil || !strings.Contains(err.Error(), `unknown metric "tone"`) {
		t.Errorf("Plan without functions = %v, want an unknown metric", err)
	}
}

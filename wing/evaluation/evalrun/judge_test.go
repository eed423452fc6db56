package evalrun_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// A busyModel rejects judge calls as a service over its rate limit does.
type busyModel struct{ calls int }

func (*busyModel) Name() string { return "busy" }

func (m *busyModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		m.calls++
		yield(nil, &model.Error{Code: 429, Message: "slow down"})
	}
}

// TestJudgeRetriesOnce: a judge attempts a call 7 times, 5 s to 120 s apart, as ADK does. The
// model's own retries do not multiply them.
func TestJudgeRetriesOnce(t *testing.T) {
	dir := testenv.Files(t, "shop", map[string][]byte{
		"root_agent.yaml": []byte(rootAgent), "app.yaml": []byte(demoApp), "demo.script.yaml": []byte("- text: Hello.\n"),
		"a.eval.yaml": []byte("metrics: {safety: {threshold: 1, judge_model_options: {judge_model: critic, num_samples: 1}}}\ncases: [{name: a, user: hi}]\n"),
	})
	app, ds := loader.New(testenv.Kinds(), nil).Load(t.Context(), dir)
	if app == nil {
		t.Fatal(ds)
	}
	defer app.Close()
	jobs, err := evalrun.Plan(dir, nil, &evalrun.PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	busy, waits := &busyModel{}, []time.Duration{}
	critic := provider.Retry(busy, &provider.RetryOptions{Attempts: 3, Wait: func(_ context.Context, d time.Duration) error {
		waits = append(waits, d)
		return nil
	}})
	r := &evalrun.Runner{App: app, Models: evalrun.Models{"critic": critic}, Runs: 1, Parallel: 1, Timeout: time.Minute}
	log := &evalrun.MemoryLog{}
	if err := r.Run(t.Context(), jobs[0], log); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(waits), "[5s 10s 20s 40s 1m20s 2m0s]"; got != want || busy.calls != 7 {
		t.Errorf("%d calls, waits %s; want 7 and %s", busy.calls, got, want)
	}
	if o := log.Outcomes(jobs[0]); len(o) != 1 || o[0].Status != eval.NotEvaluated {
		t.Errorf("outcomes = %+v, want one that is not evaluated", o)
	}
}

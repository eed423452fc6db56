package evalrun_test

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/evalrun"
	"agenthost/internal/testenv"
	"agenthost/pkg/eval"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/memstore"
)

// oneApp gives access to the app of a folder.
type oneApp struct {
	dir    string
	loader *loader.Loader
}

// Open opens the folder.
func (a *oneApp) Open(string) (*os.Root, error) { return os.OpenRoot(a.dir) }

// OpenModels builds models of the app.
func (a *oneApp) OpenModels(ctx context.Context, _ string, names []string) (map[string]model.LLM, func(), spec.Diagnostics) {
	return a.loader.OpenModels(ctx, a.dir, names)
}

// hookedModel calls a function before each request.
type hookedModel struct {
	model.LLM
	hook func(ctx context.Context, req *model.Request) error
}

// Generate calls the function and the model.
func (m hookedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	if err := m.hook(ctx, req); err != nil {
		return func(yield func(*model.Response, error) bool) { yield(nil, err) }
	}
	return m.LLM.Generate(ctx, req)
}

// serveShop returns a runner on a host that serves an app whose requests call hook first, and
// a request to run all cases of a set: n cases whose users write their IDs.
func serveShop(t *testing.T, n int, hook func(ctx context.Context, req *model.Request) error) (*evalrun.HostRunner, *eval.RunRequest) {
	t.Helper()
	dir := testenv.Files(t, "shop", map[string][]byte{
		"root_agent.yaml": []byte(rootAgent), "app.yaml": []byte(demoApp), "demo.script.yaml": []byte("- text: Hello.\n"),
	})
	l := loader.New(&loader.Options{WrapModel: func(llm model.LLM) model.LLM { return hookedModel{evalrun.WrapModel(llm), hook} }})
	app, ds := l.Load(t.Context(), dir)
	if app == nil {
		t.Fatal(ds)
	}
	st := memstore.New(nil)
	host := runtime.NewHost(st, nil)
	host.Swap(app)
	t.Cleanup(func() { host.Close(); st.Close() })
	set, err := eval.ReadSet("greetings", []byte(caseSet(n)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range set.Cases {
		c.Conversation[0].UserContent = model.UserText(c.ID)
	}
	return &evalrun.HostRunner{Host: host, Apps: &oneApp{dir, l}, Parallel: 1}, &eval.RunRequest{App: "shop", Set: set}
}

// listHistory returns the names of the files with results.
func listHistory(t *testing.T, r *evalrun.HostRunner) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.Apps.(*oneApp).dir, ".adk", "eval_history", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}

// TestEvaluate expects the start, and each case as it ends; a case that panics fails alone.
// The result is stored at the end.
func TestEvaluate(t *testing.T) {
	r, req := serveShop(t, 3, func(_ context.Context, req *model.Request) error {
		if req.Origin.UserText == "c2" {
			panic("no such order")
		}
		return nil
	})
	var got []string
	id := ""
	for step, err := range r.Evaluate(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if step.Result == nil {
			id = step.ResultID
			continue
		}
		if files := listHistory(t, r); step.Total != 3 || step.ResultID != id || cmp.Equal(files, []string{id + ".evalset_result.json"}) {
			t.Errorf("step = %+v with the files %v", step, files)
		}
		got = append(got, step.Result.CaseID+" "+step.Result.Status.String())
	}
	if diff := cmp.Diff([]string{"c1 PASSED", "c2 FAILED", "c3 PASSED"}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{id + ".evalset_result.json"}, listHistory(t, r)); diff != "" || !strings.HasPrefix(id, "shop_greetings_") {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestEvaluateStopped expects that a run ends with its consumer or its context, and stores
// nothing.
func TestEvaluateStopped(t *testing.T) {
	t.Run("consumer", func(t *testing.T) {
		calls := 0
		r, req := serveShop(t, 5, func(ctx context.Context, _ *model.Request) error {
			if calls++; calls > 1 {
				<-ctx.Done() // the other cases run until they are canceled
			}
			return nil
		})
		for step, err := range r.Evaluate(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
			if step.Result != nil {
				break
			}
		}
		if files := listHistory(t, r); len(files) > 0 {
			t.Errorf("files = %v, want none", files)
		}
	})
	t.Run("context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r, req := serveShop(t, 5, func(context.Context, *model.Request) error { cancel(); return nil })
		var last error
		for _, err := range r.Evaluate(ctx, req) {
			last = err
		}
		if files := listHistory(t, r); !errors.Is(last, context.Canceled) || len(files) > 0 {
			t.Errorf("error = %v with the files %v, want %v and none", last, files, context.Canceled)
		}
	})
}

// TestEvaluateTimeout expects that the cases which have not ended at the timeout of the run
// have failed, with the reason, and that the result is stored.
func TestEvaluateTimeout(t *testing.T) { synctest.Test(t, testEvaluateTimeout) }

func testEvaluateTimeout(t *testing.T) {
	r, req := serveShop(t, 3, func(ctx context.Context, req *model.Request) error {
		if req.Origin.UserText != "c1" {
			<-ctx.Done()
		}
		return nil
	})
	r.RunTimeout = time.Minute
	var got []string
	for step, err := range r.Evaluate(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if c := step.Result; c != nil && c.Status == eval.Failed {
			got = append(got, c.CaseID+": "+c.Notes[0].Reason)
		} else if c != nil {
			got = append(got, c.CaseID)
		}
	}
	want := []string{"c1", "c2: the run exceeded its timeout of 1m0s", "c3: the run exceeded its timeout of 1m0s"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if files := listHistory(t, r); len(files) != 1 {
		t.Errorf("files = %v, want the result", files)
	}
}

// TestEvaluateReplacedApp expects that a run ends on the revision of its start: one that is
// replaced meanwhile stays open until the run has ended.
func TestEvaluateReplacedApp(t *testing.T) {
	var r *evalrun.HostRunner
	r, req := serveShop(t, 2, func(context.Context, *model.Request) error {
		r.Host.Remove("shop")
		return nil
	})
	passed := 0
	for step, err := range r.Evaluate(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		if step.Result != nil && step.Result.Status == eval.Passed {
			passed++
		}
	}
	if passed != 2 || r.Host.App("shop") != nil {
		t.Errorf("%d cases passed, want 2 without the app", passed)
	}
	var last error
	for _, err := range r.Evaluate(t.Context(), req) {
		last = err
	}
	var re *runtime.RunError
	if !errors.As(last, &re) || re.Code != runtime.CodeAppNotFound {
		t.Errorf("error = %v, want %s", last, runtime.CodeAppNotFound)
	}
}

// TestEvaluateLinkedHistory expects that results are not written through a link out of the
// folder of the app.
func TestEvaluateLinkedHistory(t *testing.T) {
	r, req := serveShop(t, 1, func(context.Context, *model.Request) error { return nil })
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(r.Apps.(*oneApp).dir, ".adk")); err != nil {
		t.Fatal(err)
	}
	var last error
	for _, err := range r.Evaluate(t.Context(), req) {
		last = err
	}
	entries, err := os.ReadDir(outside)
	if last == nil || !strings.Contains(last.Error(), "creating the folder of results: ") || err != nil || len(entries) > 0 {
		t.Errorf("error = %v with the files %v, %v", last, entries, err)
	}
}

// TestPlanRun expects a criterion for each metric that is only named: that of the config, or
// else a default one with rubrics if no case has any.
func TestPlanRun(t *testing.T) {
	_, req := serveShop(t, 1, func(context.Context, *model.Request) error { return nil })
	half := 0.5
	req.Measures = []*eval.Measure{{Metric: "rubric_based_quality", Threshold: &half, Criterion: &eval.Criterion{WithIntermediate: true}}, {Metric: "safety_v1"}, {Metric: "tool_trajectory"}}
	req.Config = &eval.Config{Criteria: &eval.Criteria{Names: []string{"tool_trajectory"}, ByName: map[string]*eval.Criterion{
		"tool_trajectory": {Threshold: &half, MatchType: eval.MatchAnyOrder},
	}}}
	job, err := evalrun.PlanRun(req)
	if err != nil {
		t.Fatal(err)
	}
	quality, safety, trajectory := job.Measures[0].Criterion, job.Measures[1].Criterion, job.Measures[2].Criterion
	if len(quality.Rubrics) == 0 || !quality.WithIntermediate || *quality.Threshold != 0.5 || quality.Judge.Model != eval.DefaultJudgeModel {
		t.Errorf("criterion of rubrics = %+v", quality)
	}
	if *safety.Threshold != 0.8 || *trajectory.Threshold != 0.5 || trajectory.MatchType != eval.MatchAnyOrder {
		t.Errorf("criteria = %+v, %+v", safety, trajectory)
	}
	req.Set.Cases[0].Rubrics = []*eval.Rubric{{ID: "own", Content: &eval.RubricContent{Text: "Is polite."}}}
	if job, err = evalrun.PlanRun(req); err != nil || len(job.Measures[0].Criterion.Rubrics) > 0 {
		t.Errorf("rubrics = %v, %v, want none next to those of the case", job.Measures[0].Criterion.Rubrics, err)
	}
}

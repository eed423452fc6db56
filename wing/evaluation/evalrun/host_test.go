package evalrun_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// oneApp gives access to the app in a folder.
type oneApp struct {
	dir    string
	loader *loader.Loader
}

// Open opens the folder.
func (a *oneApp) Open(string) (*os.Root, error) { return os.OpenRoot(a.dir) }

// OpenModels builds the app's models.
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
// a request to run all cases in a set: n cases whose users write their IDs.
func serveShop(t *testing.T, n int, hook func(ctx context.Context, req *model.Request) error) (*evalrun.HostRunner, *eval.RunRequest) {
	t.Helper()
	dir := testenv.Files(t, "shop", map[string][]byte{
		"root_agent.yaml": []byte(rootAgent), "app.yaml": []byte(demoApp), "demo.script.yaml": []byte("- text: Hello.\n"),
	})
	l := loader.New(testenv.Kinds(), &loader.Options{WrapModel: func(llm model.LLM) model.LLM { return hookedModel{evalrun.WrapModel(llm), hook} }})
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

// listHistory returns the names of the result files.
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

// TestEvaluateWithPanickingCase expects the start, and each case as it ends; a case that panics fails alone.
// The result is stored at the end.
func TestEvaluateWithPanickingCase(t *testing.T) {
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

// TestEvaluateTimeout expects that cases which have not ended at the run's timeout have
// failed, with the reason, and that the result is stored.
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

// TestEvaluateReplacedApp expects that a run ends on the revision that it started with: one
// that is replaced meanwhile stays open until the run has ended.
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

// TestEvaluateLinkedHistory expects that results are not written through a link that leads
// outside the app's folder.
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
	if last == nil || !strings.Contains(last.Error(), "creating the results folder: ") || err != nil || len(entries) > 0 {
		t.Errorf("error = %v with the files %v, %v", last, entries, err)
	}
}

// readOnlyApp is an app in a read-only file system.
type readOnlyApp struct{ *oneApp }

// Open returns the error from a file system that cannot be written.
func (readOnlyApp) Open(string) (*os.Root, error) {
	return nil, &os.PathError{Op: "mkdirat", Path: ".adk", Err: syscall.EROFS}
}

// runAll runs all cases, and returns the result's ID and the run's error.
func runAll(t *testing.T, r *evalrun.HostRunner, req *eval.RunRequest) (id string, last error) {
	t.Helper()
	for step, err := range r.Evaluate(t.Context(), req) {
		if last = err; err == nil {
			id = step.ResultID
		}
	}
	return id, last
}

// TestEvaluateReadOnlyFolder expects that the session database alone stores the result if the
// folder is read-only, that no temporary file is left, and that the run fails before its start
// without a database for results, and at its end if the database fails.
func TestEvaluateReadOnlyFolder(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r, req := serveShop(t, 2, func(context.Context, *model.Request) error { return nil })
	r.Apps = readOnlyApp{r.Apps.(*oneApp)}
	id, err := runAll(t, r, req)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := r.Host.Store().Results.Get(t.Context(), "shop", id)
	if err != nil || stored.SetID != "greetings" || stored.Revision == "" {
		t.Fatalf("stored result = %+v, %v", stored, err)
	}
	result, err := eval.ReadResult("result.json", stored.Content)
	if err != nil || result.ID != id || len(result.Cases) != 2 {
		t.Errorf("result = %+v, %v, want that of the run", result, err)
	}
	if files, err := os.ReadDir(temp); err != nil || len(files) > 0 {
		t.Errorf("temporary files = %v, %v, want none", files, err)
	}
	r.Host.Store().Results = failingResults(t, nil)
	if id, err := runAll(t, r, req); id != "" || !errors.Is(err, syscall.EROFS) {
		t.Errorf("run %q without a database for results = %v, want %v before the start", id, err, syscall.EROFS)
	}
	r.Host.Store().Results = failingResults(t, errors.New("disk full"))
	if _, err := runAll(t, r, req); err == nil || err.Error() != "storing the result in the session database: disk full" {
		t.Errorf("error = %v, want that of the database", err)
	}
}

// TestEvaluateStoreError expects that a session database error does not lose the file, and is
// logged; a database without results is not an error.
func TestEvaluateStoreError(t *testing.T) {
	r, req := serveShop(t, 1, func(context.Context, *model.Request) error { return nil })
	var log bytes.Buffer
	r.Logger = slog.New(slog.NewTextHandler(&log, nil))
	for _, storeErr := range []error{nil, errors.New("disk full")} {
		r.Host.Store().Results = failingResults(t, storeErr)
		if _, err := runAll(t, r, req); err != nil {
			t.Error(err)
		}
		if logged := strings.Contains(log.String(), `not in the session database" app=shop`); logged != (storeErr != nil) {
			t.Errorf("log with store error %v = %s", storeErr, &log)
		}
	}
	if files := listHistory(t, r); len(files) != 2 {
		t.Errorf("files = %v, want both results", files)
	}
}

// failingResults are results that cannot be stored; without an error, a store has no backend
// for them.
func failingResults(t *testing.T, err error) *store.Results {
	b := memstore.NewBackends()
	if b.Results = nil; err != nil {
		b.Results = failingBackend{memstore.NewResults(), err}
	}
	st := store.New(b, nil)
	t.Cleanup(func() { st.Close() })
	return st.Results
}

type failingBackend struct {
	*memstore.Results
	err error
}

// PutResult returns the error.
func (b failingBackend) PutResult(context.Context, *store.Result, int) error { return b.err }

// TestPlanRunCompletesCriteria expects a criterion for each metric that is only named: the config's, or else a
// default one with rubrics if no case has any.
func TestPlanRunCompletesCriteria(t *testing.T) {
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

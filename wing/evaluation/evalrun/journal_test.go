package evalrun_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

const (
	rootAgent = "name: clerk\ninstruction: Greet.\nmodel: demo\n"
	demoApp   = "models:\n  demo: {provider: scripted, script: demo.script.yaml}\n"
)

// caseSet returns a set file with n cases, named c1, c2 and so on.
func caseSet(n int) string {
	var cases []string
	for i := range n {
		cases = append(cases, fmt.Sprintf(`{"eval_id": "c%d", "conversation": [{
			"user_content": {"parts": [{"text": "hello"}]}, "final_response": {"parts": [{"text": "Hello."}]}}]}`, i+1))
	}
	return `{"eval_set_id": "greetings", "eval_cases": [` + strings.Join(cases, ",") + `]}`
}

// openRun loads an app with a set that has five cases, and plans to run them all.
func openRun(t testing.TB, files map[string]string) (*evalrun.Runner, *evalrun.Job) {
	t.Helper()
	all := map[string][]byte{
		"root_agent.yaml": []byte(rootAgent), "app.yaml": []byte(demoApp),
		"demo.script.yaml": []byte("- text: Hello.\n"), "first.evalset.json": []byte(caseSet(5)),
	}
	for name, text := range files {
		all[name] = []byte(text)
	}
	dir := testenv.Files(t, "shop", all)
	app, ds := loader.New(testenv.Kinds(), &loader.Options{WrapModel: evalrun.WrapModel}).Load(t.Context(), dir)
	if app == nil {
		t.Fatal(ds)
	}
	t.Cleanup(app.Close)
	jobs, err := evalrun.Plan(dir, nil, &evalrun.PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &evalrun.Runner{App: app, Runs: 1, Parallel: 2, Timeout: time.Minute}, jobs[0]
}

// listCases returns the cases in a result file.
func listCases(t *testing.T, path string) []string {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	result, err := eval.ReadResult(path, src)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range result.Cases {
		ids = append(ids, fmt.Sprintf("%s:%s %s", c.SetID, c.CaseID, c.Status))
	}
	return ids
}

var fivePassed = []string{"greetings:c1 PASSED", "greetings:c2 PASSED", "greetings:c3 PASSED", "greetings:c4 PASSED", "greetings:c5 PASSED"}

// A run that is killed, also in the middle of a line, continues with the cases without a
// result. The result has each case once, in the set's order.
func TestResumeAfterKill(t *testing.T) {
	r, job := openRun(t, nil)
	folder := filepath.Join(t.TempDir(), "history")
	first, err := job.Begin(folder, evalrun.Subject{App: "shop", Revision: "r1"}, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	some := *job
	some.Cases = []*eval.Case{job.Cases[3], job.Cases[1]}
	if err := r.Run(t.Context(), &some, first); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "shop_greetings_1700000000.000001.evalset_result.partial")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, text[len(text)-100:len(text)-10]...), 0o644); err != nil {
		t.Fatal(err)
	}

	again, err := job.Resume(folder, evalrun.Subject{App: "shop", Revision: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := []int{again.Len(), again.Count("c1"), again.Count("c2"), again.Count("c4")}; !cmp.Equal(got, []int{2, 0, 1, 1}) {
		t.Errorf("counts = %v, want two results, of c2 and c4", got)
	}
	if err := r.Run(t.Context(), job, again); err != nil {
		t.Fatal(err)
	}
	path, err := again.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(folder, "shop_greetings_1700000000.000001.evalset_result.json"); path != want {
		t.Errorf("Finish = %s, want %s", path, want)
	}
	if diff := cmp.Diff(fivePassed, listCases(t, path)); diff != "" {
		t.Errorf("cases (-want +got):\n%s", diff)
	}
	if next, err := job.Resume(folder, evalrun.Subject{App: "shop", Revision: "r1"}); next != nil || err != nil {
		t.Errorf("Resume = %v, %v, want nil after the run is complete", next, err)
	}
}

// Results for another revision, selection or metric are not comparable: such a run cannot be
// resumed. A journal without results is deleted.
func TestResumeChanged(t *testing.T) {
	r, job := openRun(t, nil)
	folder := t.TempDir()
	journal, err := job.Begin(folder, evalrun.Subject{App: "shop", Revision: "r1"}, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), job, journal); err != nil {
		t.Fatal(err)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	want := "cannot resume " + filepath.Join(folder, "shop_greetings_1700000000.000001.evalset_result.partial") +
		": the app, the set, the selected cases or the metrics have changed since; delete the file, or run without --resume"
	fewer, other := *job, *job
	fewer.Cases, other.Measures = job.Cases[:1], job.Measures[:1]
	for _, tt := range []struct {
		name, revision string
		job            *evalrun.Job
	}{{"revision", "r2", job}, {"cases", "r1", &fewer}, {"metrics", "r1", &other}} {
		if _, err := tt.job.Resume(folder, evalrun.Subject{App: "shop", Revision: tt.revision}); err == nil || err.Error() != want {
			t.Errorf("Resume with other %s = %v, want %s", tt.name, err, want)
		}
	}
	if other, err := job.Resume(folder, evalrun.Subject{App: "office", Revision: "r1"}); other != nil || err != nil {
		t.Errorf("Resume = %v, %v, want nil for another app", other, err)
	}
	empty, err := job.Begin(filepath.Join(folder, "empty"), evalrun.Subject{App: "shop", Revision: "r1"}, time.Unix(1700000000, 0))
	if err == nil {
		err = empty.Close()
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "empty", "*")); err != nil || len(left) > 0 {
		t.Errorf("Close left %v, %v, want no file without results", left, err)
	}
}

// Two concurrent runs have their own files. A set ID that cannot be part of a file name is an
// error.
func TestBeginConcurrentRuns(t *testing.T) {
	_, job := openRun(t, nil)
	folder := t.TempDir()
	for _, want := range []string{"1700000000.000001", "1700000000.000002"} {
		if _, err := job.Begin(folder, evalrun.Subject{App: "shop", Revision: "r1"}, time.Unix(1700000000, 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, "shop_greetings_"+want+".evalset_result.partial")); err != nil {
			t.Error(err)
		}
	}
	job.Set.ID = "../greetings"
	const want = `cannot use "../greetings" as a file name`
	if _, err := job.Begin(folder, evalrun.Subject{App: "shop", Revision: "r1"}, time.Now()); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Begin = %v, want %s", err, want)
	}
}

// When the context ends, finished cases are recorded, running ones are not, and no further
// one starts.
func TestRunCanceled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { cancel(stopped) }))
	defer service.Close()
	r, job := openRun(t, map[string]string{
		"root_agent.yaml":  rootAgent + "tools:\n  - http: {name: stop, description: Stops., url: " + service.URL + "}\n",
		"demo.script.yaml": "- when: user contains \"stop\"\n  calls: [{name: stop}]\n- text: Hello.\n",
	})
	job.Cases[2].Conversation[0].UserContent.Parts[0].Text = "stop"
	r.Parallel = 1
	journal, err := job.Begin(t.TempDir(), evalrun.Subject{App: "shop", Revision: "r1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	if err := r.Run(ctx, job, journal); !errors.Is(err, stopped) {
		t.Errorf("Run = %v, want %v", err, stopped)
	}
	if got := []int{journal.Len(), journal.Count("c1"), journal.Count("c2")}; !cmp.Equal(got, []int{2, 1, 1}) {
		t.Errorf("counts = %v, want the results of c1 and c2", got)
	}
}

// A conversation that exceeds the timeout fails its case.
func TestTimeoutFailsCase(t *testing.T) {
	r, job := openRun(t, map[string]string{"demo.script.yaml": "- {text: Hello., delay: 1h}\n"})
	r.Timeout = time.Millisecond
	job.Cases = job.Cases[:1]
	journal, err := job.Begin(t.TempDir(), evalrun.Subject{App: "shop", Revision: "r1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(t.Context(), job, journal); err != nil {
		t.Fatal(err)
	}
	for o, err := range journal.Outcomes(false) {
		const want = "the conversation exceeded the timeout of 1ms"
		if err != nil || o.Status != eval.Failed || !strings.HasSuffix(o.Runs[0].Notes[0].Reason, want) {
			t.Errorf("outcome = %+v, %v, want %s", o, err, want)
		}
	}
}

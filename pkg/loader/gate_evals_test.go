package loader

import (
	"context"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/limit"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/memstore"
)

const gatedApp = `models:
  echo: {provider: scripted, script: echo.yaml, price: {input: 10000, output: 0}}
reload: {gate: [evals]%s}
`

const ordersEval = `metrics: {response_match: 0.8}
cases:
  - name: status
    user: status
    expect: {text: %s}
  - name: refund
    user: refund
    expect: {text: refund}
`

// writeGated writes app x, whose agent answers a status with one word, and whose eval set
// orders expects another one. Each call costs one dollar.
func writeGated(s *watchEnv, answer, expected, settings string) {
	s.writeFile("x/app.yaml", strings.Replace(gatedApp, "%s", settings, 1))
	s.writeFile("x/echo.yaml", "- when: user == \"status\"\n  text: "+answer+"\n  usage: {prompt: 100}\n- text: refund\n  usage: {prompt: 100}\n")
	s.writeFile("x/root_agent.yaml", agentYAML(answer)+"model: echo\n")
	s.writeFile("x/orders.eval.yaml", strings.Replace(ordersEval, "%s", expected, 1))
}

// newEvalGatedEnv returns a watch over x that serves the answer "good".
func newEvalGatedEnv(t *testing.T, settings string) *watchEnv {
	t.Helper()
	s := newWatchEnv(t)
	writeGated(s, "good", "good", settings)
	s.must(s.watch.Sync(t.Context()))
	s.pollAndExpect(2)
	if st, _ := s.watch.Status("x"); !st.OK {
		t.Fatalf("the app does not pass its gate: %s", st.Diagnostics.Error())
	}
	return s
}

// problemsOf returns x's diagnostics without the temporary folder.
func problemsOf(s *watchEnv) string {
	st, _ := s.watch.Status("x")
	return strings.ReplaceAll(strings.Join(st.Diagnostics.Strings(), "\n"), filepath.ToSlash(s.top)+"/", "")
}

// TestGateEvals expects a change whose eval case fails to be rejected, with set, case, metric,
// score and threshold at the case's place; the old revision serves, and the next good save is
// published.
func TestGateEvals(t *testing.T) {
	s := newEvalGatedEnv(t, "")
	before, _ := s.watch.Status("x")
	writeGated(s, "bad", "good", "")
	s.pollAndExpect(3)
	want := "x/orders.eval.yaml:3:11: eval case orders:status failed: response_match_score is 0, required 0.8 [eval-failed]"
	if diff := cmp.Diff(want, problemsOf(s)); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	st, _ := s.watch.Status("x")
	if st.OK || st.Revision != before.Revision || s.host.apps["x"].Description() != "good" || !strings.HasSuffix(st.Diagnostics[0].Hint, "x orders:status") {
		t.Errorf("Status = %+v, want the old revision and a hint with the command", st)
	}
	reports, _ := s.watch.Reports(0)
	if last := reports[len(reports)-1]; last.Kind != ReportRefused || last.From != before.Revision {
		t.Errorf("last report = %+v, want a refused change", last)
	}
	writeGated(s, "better", "better", "")
	s.pollAndExpect(2, "x better")
	if got := problemsOf(s); got != "" {
		t.Errorf("after the fix: %s", got)
	}
}

// TestGateEvalsOnlyIfConfigured is the control of TestGateEvals: without the gate, the bad
// change is published. A gate that names other cases does not run the failing one.
func TestGateEvalsOnlyIfConfigured(t *testing.T) {
	s := newEvalGatedEnv(t, "")
	writeGated(s, "bad", "good", "")
	s.writeFile("x/app.yaml", strings.Replace(gatedApp, "reload: {gate: [evals]%s}\n", "", 1))
	s.pollAndExpect(2, "x bad")
	writeGated(s, "worse", "good", `, eval_sets: ["orders:refund"]`)
	s.pollAndExpect(2, "x worse")
}

// TestGateTestsBeforeEvals expects no model call, which costs money, while a test fails.
func TestGateTestsBeforeEvals(t *testing.T) {
	s := newEvalGatedEnv(t, "")
	writeGated(s, "bad", "good", "")
	s.writeFile("x/app.yaml", strings.Replace(strings.Replace(gatedApp, "%s", "", 1), "[evals]", "[tests, evals]", 1))
	s.writeFile("x/a.test.yaml", instructionTest("nothing"))
	s.pollAndExpect(3)
	if got := problemsOf(s); !strings.Contains(got, "[test-failed]") || strings.Contains(got, "[eval-failed]") {
		t.Errorf("problems = %s, want those of the test only", got)
	}
}

// TestGateCostBudget expects a gate that reaches its cost budget to reject the change and to name
// the budget; with one more dollar the same change is published.
func TestGateCostBudget(t *testing.T) {
	s := newEvalGatedEnv(t, "")
	writeGated(s, "new", "new", ", budget: {cost: 0.5}")
	s.pollAndExpect(3)
	got := problemsOf(s)
	if !strings.Contains(got, "eval cases: the gate exceeded its cost budget of 0.5 US dollars [eval-failed]") {
		t.Errorf("problems = %s, want the cost budget", got)
	}
	st, _ := s.watch.Status("x")
	if want := "raise budget: {cost: …} of reload in app.yaml"; st.Diagnostics[len(st.Diagnostics)-1].Hint != want && st.Diagnostics[0].Hint != want {
		t.Errorf("hints = %+v, want %s", st.Diagnostics, want)
	}
	writeGated(s, "new", "new", ", budget: {cost: 2.5}")
	s.pollAndExpect(2, "x new")
}

// A blockingModel answers when ctx ends.
type blockingModel struct{ started chan string }

func (blockingModel) Name() string { return "blocking" }

func (m blockingModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		if m.started != nil {
			m.started <- req.Origin.UserText
		}
		<-ctx.Done()
		yield(nil, context.Cause(ctx))
	}
}

// TestGateTimeBudget expects a gate to end at its time budget, with the number of cases that ran.
func TestGateTimeBudget(t *testing.T) {
	s := newWatchEnv(t)
	writeGated(s, "good", "good", ", budget: {time: 7s}")
	synctest.Test(t, func(t *testing.T) {
		l := New(listKinds(), &Options{Model: blockingModel{}})
		app, ds := l.Load(t.Context(), s.path("x"))
		if app == nil {
			t.Fatal(ds.Err())
		}
		defer app.Close()
		began := time.Now()
		got := l.RunGate(t.Context(), s.path("x"), app)
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("the gate took %s, want 7s", took)
		}
		want := "the gate stopped after 0 of 2 eval cases: the gate exceeded its time budget of 7s [eval-failed]"
		if len(got) != 1 || !strings.HasSuffix(got[0].String(), want) || got[0].Hint != "raise budget: {time: …} of reload in app.yaml" {
			t.Errorf("Gate = %v, hint %s; want %s", got.Strings(), got[0].Hint, want)
		}
	})
}

// TestGateNewerSave expects a newer save to stop the older save's gate, whose problems are not
// reported, and to be published.
func TestGateNewerSave(t *testing.T) {
	s := newServingEnv(t)
	s.watch.opts.Settle, s.watch.opts.Clock = time.Millisecond, time.Now
	stopped := make(chan error, 1)
	began := make(chan struct{}, 1)
	s.watch.opts.Gate = func(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
		if app.Description() != "slow" {
			return nil
		}
		began <- struct{}{}
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return spec.Diagnostics{{Pos: spec.Pos{File: dir}, Rule: "eval-failed", Message: "stopped"}}
	}
	s.host.eventChannel = make(chan string, 10)
	ctx, stop := withDeadline(t)
	defer stop()
	s.writeFile("x/root_agent.yaml", agentYAML("slow"))
	ended := make(chan error)
	go func() { ended <- s.watch.Run(ctx) }()
	<-began
	s.writeFile("x/root_agent.yaml", agentYAML("quick"))
	if err := <-stopped; err == nil || err.Error() != "the app changed again" {
		t.Errorf("the gate was stopped by %v", err)
	}
	if got := <-s.host.eventChannel; got != "x quick" {
		t.Errorf("published %s, want x quick", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if st, _ := s.watch.Status("x"); !st.OK || len(st.Diagnostics) > 0 {
		t.Errorf("Status = %+v, want no problems of the older save", st)
	}
}

// TestGateStoppedWithEvals expects running cases to end with the watch.
func TestGateStoppedWithEvals(t *testing.T) {
	s := newWatchEnv(t)
	writeGated(s, "good", "good", "")
	started := make(chan string, 10)
	s.watch = NewWatch(New(listKinds(), &Options{Model: blockingModel{started}}), s.host, []string{s.top}, &WatchOptions{})
	ctx, stop := withDeadline(t)
	ended := make(chan error)
	go func() { ended <- s.watch.Run(ctx) }()
	<-started
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	s.watch.polls.Wait()
	if len(s.host.apps) > 0 {
		t.Errorf("apps = %v, want none", s.host.apps)
	}
}

// TestGateStoredRevision expects a stored revision's evals not to run again: it passed them, and a
// restart must not depend on the models' next answer. The control is a store without the revision.
func TestGateStoredRevision(t *testing.T) {
	s := newWatchEnv(t)
	writeGated(s, "good", "good", "")
	st := memstore.New(nil)
	defer st.Close()
	other := memstore.New(nil)
	defer other.Close()
	s.watch = NewWatch(New(listKinds(), nil), s.host, []string{s.top}, &WatchOptions{Clock: s.clock, Revisions: st.Revisions})
	s.must(s.watch.Sync(t.Context()))
	s.writeFile("x/orders.eval.yaml", strings.Replace(ordersEval, "%s", "another", 1))
	for name, restart := range map[string]struct {
		options *WatchOptions
		serves  bool
	}{
		"stored":     {&WatchOptions{Clock: s.clock, Revisions: st.Revisions}, true},
		"not stored": {&WatchOptions{Clock: s.clock, Revisions: other.Revisions}, false},
	} {
		host := newRecorder()
		s.must(NewWatch(New(listKinds(), nil), host, []string{s.top}, restart.options).Sync(t.Context()))
		if (host.apps["x"] != nil) != restart.serves {
			t.Errorf("%s: the app serves: %t, want %t", name, host.apps["x"] != nil, restart.serves)
		}
		if app := host.apps["x"]; app != nil {
			app.Close()
		}
	}
}

// TestGateEvalsRequestedAgain expects a requested reload to run failed evals again: models
// do not always answer the same. A poll does not.
func TestGateEvalsRequestedAgain(t *testing.T) {
	s := newEvalGatedEnv(t, "")
	gates := 0
	gate := s.watch.opts.Gate
	s.watch.opts.Gate = func(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
		gates++
		return gate(ctx, dir, app)
	}
	writeGated(s, "bad", "good", "")
	s.pollAndExpect(5)
	if gates != 1 {
		t.Errorf("polls ran the gate %d times, want once", gates)
	}
	s.must(s.watch.Sync(t.Context()))
	if gates != 2 {
		t.Errorf("the gate ran %d times, want again after a request", gates)
	}
}

// TestGateLargeEvalSet: an eval set above the file limit is reported as too large by the gate and
// by check, and not as invalid JSON at the place where it was cut off.
func TestGateLargeEvalSet(t *testing.T) {
	s := newEvalGatedEnv(t, "")
	s.writeFile("x/large.evalset.json", `{"eval_set_id": "large", "description": "`+strings.Repeat("x", limit.AppFile.Bytes)+`", "eval_cases": []}`)
	writeGated(s, "better", "better", "")
	s.pollAndExpect(3)
	const want = "x/large.evalset.json: cannot read the file: it exceeds the limit of 4 MiB for files that check and the gate read; split it [file]"
	if diff := cmp.Diff(want, problemsOf(s)); diff != "" {
		t.Errorf("problems of the gate (-want +got):\n%s", diff)
	}
	ds := New(listKinds(), &Options{}).Check(t.Context(), s.path("x"))
	if got := strings.ReplaceAll(strings.Join(ds.Strings(), "\n"), filepath.ToSlash(s.top)+"/", ""); !strings.Contains(got, want) || strings.Contains(got, "JSON") {
		t.Errorf("problems of check = %.300s, want %s", got, want)
	}
}

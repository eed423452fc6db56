package evalweb_test

import (
	"bufio"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalweb"
)

// An evaluatorFunc is an evaluator.
type evaluatorFunc func(ctx context.Context, req *eval.RunRequest, yield func(*eval.RunProgress, error) bool)

// Evaluate calls the function.
func (f evaluatorFunc) Evaluate(ctx context.Context, req *eval.RunRequest) iter.Seq2[*eval.RunProgress, error] {
	return func(yield func(*eval.RunProgress, error) bool) { f(ctx, req, yield) }
}

const evalViewApp = `
-- apps/shop/root_agent.yaml --
name: shop
agent_class: SequentialAgent
-- apps/shop/top.eval.yaml --
cases:
  - {name: a, user: Hi, expect: {text: Hello}}
-- apps/shop/more/short.eval.yaml --
metrics: {response_match: 0.7}
cases:
  - {name: a, user: Hi, expect: {text: Hello}}
  - {name: b, user: Hi, expect: {text: Hello}}
`

func newEvalViewEnv(t *testing.T, opts *evalweb.Options, serve *server.Options) *servertest.Env {
	folders := newFolders()
	opts.Folders = folders
	e := newEnvWith(t, opts, &servertest.Options{Server: serve})
	folders.LoadApps(t, e, txtar.Parse([]byte(evalViewApp)), t.TempDir())
	return e
}

const followPath = "/-/evals/shop/sets/more/short.eval.yaml"

func caseStep(id string, score float64) *eval.RunProgress {
	limit := 0.7
	m := &eval.MetricResult{Metric: eval.ResponseMatch, Threshold: &limit, Score: &score, Status: eval.StatusOf(&score, limit)}
	return &eval.RunProgress{Result: &eval.CaseResult{CaseID: id, Status: m.Status, Overall: []*eval.MetricResult{m}}}
}

// A run streams its start, each case that ended, and its end. It has the request's metrics,
// and the set's config.
func TestFollowEvalRun(t *testing.T) {
	var got *eval.RunRequest
	e := newEvalViewEnv(t, &evalweb.Options{Dev: true, Evaluator: evaluatorFunc(func(_ context.Context, req *eval.RunRequest, yield func(*eval.RunProgress, error) bool) {
		got = req
		_ = yield(&eval.RunProgress{ResultID: "shop_short_1.5", Total: 2}, nil) && yield(caseStep("b", 0.9), nil) && yield(caseStep("a", 0.5), nil)
	})}, nil)
	w := e.Serve("POST", followPath, `{"evalCaseIds": ["a", "b"], "evalMetrics": [{"metricName": "response_match_score", "threshold": 0.5}]}`)
	const want = `data: {"resultId":"shop_short_1.5","total":2}

data: {"case":{"id":"b","status":1,"turns":0,"metrics":[{"metric":"response_match_score","score":0.9,"threshold":0.7,"status":1}]}}

data: {"case":{"id":"a","status":2,"turns":0,"metrics":[{"metric":"response_match_score","score":0.5,"threshold":0.7,"status":2}]}}

data: {"resultId":"shop_short_1.5","done":true}

`
	if diff := cmp.Diff(want, w.Body.String()); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	if got.App != "shop" || got.Set.ID != "short" || len(got.CaseIDs) != 2 || *got.Measures[0].Threshold != 0.5 || *got.Config.Measures()[0].Threshold != 0.7 {
		t.Errorf("request = %+v", got)
	}
}

// A request error is the response; an error in a run that has started is the last frame.
func TestFollowEvalRunErrors(t *testing.T) {
	unknown := &eval.UnknownNameError{Kind: "case", Name: "c", Known: []string{"a", "b"}}
	fail := func(started bool, err error) evalweb.Evaluator {
		return evaluatorFunc(func(_ context.Context, _ *eval.RunRequest, yield func(*eval.RunProgress, error) bool) {
			if !started || yield(&eval.RunProgress{ResultID: "r", Total: 2}, nil) {
				yield(nil, err)
			}
		})
	}
	for _, tt := range []struct {
		name string
		opts evalweb.Options
		path string
		body string
		code int
		want string
	}{
		{"without --dev", evalweb.Options{Evaluator: fail(false, unknown)}, followPath, `{}`, 403, `Eval sets cannot be run: they call models; start the server with --dev`},
		{"without an evaluator", evalweb.Options{Dev: true}, followPath, `{}`, 501, `Eval sets cannot be run on this server`},
		{"unknown set", evalweb.Options{Dev: true, Evaluator: fail(false, unknown)}, "/-/evals/shop/sets/none.eval.yaml", `{}`, 404, "Eval set file `none.eval.yaml` not found."},
		{"unknown case", evalweb.Options{Dev: true, Evaluator: fail(false, unknown)}, followPath, `{"evalCaseIds": ["c"]}`, 404, `unknown case \"c\": the names are a, b`},
		{"metrics of another type", evalweb.Options{Dev: true, Evaluator: fail(false, unknown)}, followPath, `{"evalMetrics": 1}`, 422, `Input should be a valid list`},
		{"after the start", evalweb.Options{Dev: true, Evaluator: fail(true, errors.New("disk full"))}, followPath, `{}`, 200, `data: {"error":"internal error"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newEvalViewEnv(t, &tt.opts, nil).Serve("POST", tt.path, tt.body)
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("response = %d %s, want %d %s", w.Code, w.Body, tt.code, tt.want)
			}
		})
	}
}

// A run without news sends comments. A client that disconnects cancels its run.
func TestFollowEvalRunCanceled(t *testing.T) {
	canceled := make(chan struct{})
	e := newEvalViewEnv(t, &evalweb.Options{Dev: true, Evaluator: evaluatorFunc(func(ctx context.Context, _ *eval.RunRequest, yield func(*eval.RunProgress, error) bool) {
		yield(&eval.RunProgress{ResultID: "r", Total: 2}, nil)
		<-ctx.Done()
		close(canceled)
	})}, &server.Options{KeepAlive: time.Millisecond})
	web := httptest.NewServer(e.Server)
	defer web.Close()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", web.URL+followPath, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"data: {\"resultId\":\"r\",\"total\":2}\n", "\n", ": keep-alive\n"} {
		if line, err := lines.ReadString('\n'); err != nil || line != want {
			t.Fatalf("line = %q, %v, want %q", line, err, want)
		}
	}
	cancel()
	<-canceled
}

// Two runs may be in progress, whichever route started them; further ones are rejected before
// their set, which may be large, is read. So are those after the shutdown started.
func TestFollowEvalRunLimit(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	e := newEvalViewEnv(t, &evalweb.Options{Dev: true, Evaluator: evaluatorFunc(func(context.Context, *eval.RunRequest, func(*eval.RunProgress, error) bool) {
		started <- struct{}{}
		<-release
	})}, nil)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			servertest.ExpectResponse(t, e.Serve("POST", followPath, "{}"), http.StatusOK, "data: {\"done\":true}\n\n")
		})
		<-started
	}
	const full = `{"detail":"too many eval runs in progress (limit 2), retry later"}`
	servertest.ExpectResponse(t, e.Serve("POST", followPath, "{}"), http.StatusServiceUnavailable, full)
	servertest.ExpectResponse(t, e.Serve("POST", "/dev/apps/shop/eval-sets/top/run", `{"evalMetrics": []}`), http.StatusServiceUnavailable, full)
	servertest.ExpectResponse(t, e.Serve("POST", "/-/evals/shop/sets/none.eval.yaml", "{}"), http.StatusServiceUnavailable, full)
	servertest.ExpectResponse(t, e.Serve("POST", "/dev/apps/shop/eval-sets/none/run", `{"evalMetrics": []}`), http.StatusServiceUnavailable, full)
	close(release)
	wg.Wait()
	servertest.ExpectResponse(t, e.Serve("POST", "/dev/apps/shop/eval-sets/none/run", `{"evalMetrics": []}`), http.StatusNotFound, `{"detail":"Eval set `+"`none`"+` not found."}`)
	e.Server.Drain()
	servertest.ExpectResponse(t, e.Serve("POST", followPath, "{}"), http.StatusServiceUnavailable, `{"detail":"server is shutting down, retry later"}`)
}

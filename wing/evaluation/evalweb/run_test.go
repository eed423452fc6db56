package evalweb_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalweb"
)

const runPath = "/dev/apps/shop/eval-sets/basics/run"

func newEvalRunEnv(t *testing.T, opts *evalweb.Options, serve *server.Options) (*servertest.Env, string) {
	folders, dir := newFolders(), t.TempDir()
	opts.Folders = folders
	e := newEnvWith(t, opts, &servertest.Options{Server: serve})
	folders.LoadApps(t, e, txtar.Parse([]byte(evalApp)), dir)
	return e, dir
}

// Two runs may be in progress; more are rejected until one ends.
func TestEvalRunLimit(t *testing.T) {
	started, proceed := make(chan struct{}), make(chan struct{})
	e, _ := newEvalRunEnv(t, &evalweb.Options{Dev: true, Evaluator: evaluatorFunc(func(_ context.Context, _ *eval.RunRequest, yield func(*eval.RunProgress, error) bool) {
		started <- struct{}{}
		<-proceed
		yield(&eval.RunProgress{}, nil)
	})}, nil)
	const body = `{"evalMetrics": []}`
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			servertest.ExpectResponse(t, e.Serve("POST", runPath, body), http.StatusOK, `{"runEvalResults":[]}`)
		})
		<-started
	}
	w := e.Serve("POST", runPath, body)
	servertest.ExpectResponse(t, w, http.StatusServiceUnavailable, `{"detail":"too many eval runs in progress (limit 2), retry later"}`)
	if got := w.Header().Get("Retry-After"); got != "5" {
		t.Errorf("Retry-After = %q, want 5", got)
	}
	close(proceed)
	wg.Wait()
	go func() { <-started }()
	servertest.ExpectResponse(t, e.Serve("POST", runPath, body), http.StatusOK, `{"runEvalResults":[]}`)
}

// A run is rejected if it has too many cases, if the server is shutting down, and if the
// results cannot be stored.
func TestEvalRunRejected(t *testing.T) {
	e, dir := newEvalRunEnv(t, &evalweb.Options{Dev: true, Evaluator: evaluatorFunc(func(_ context.Context, _ *eval.RunRequest, yield func(*eval.RunProgress, error) bool) {
		yield(nil, fmt.Errorf("creating the results folder: %w", fs.ErrPermission))
	})}, nil)
	var cases []string
	for i := range 1001 {
		cases = append(cases, fmt.Sprintf(`{"eval_id": "c%d", "conversation": []}`, i))
	}
	text := `{"eval_set_id": "many", "eval_cases": [` + strings.Join(cases, ",") + `]}`
	if err := os.WriteFile(filepath.Join(dir, "shop", "many.evalset.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	servertest.ExpectResponse(t, e.Serve("POST", "/dev/apps/shop/eval-sets/many/run", `{"evalMetrics": []}`), http.StatusBadRequest,
		`{"detail":"the run has 1001 cases, more than 1000: select fewer with evalCaseIds, or use agenthost eval"}`)
	servertest.ExpectResponse(t, e.Serve("POST", runPath, `{"evalMetrics": []}`), http.StatusForbidden,
		`{"detail":"Eval results cannot be stored: the server has no permission to write to the app's folder"}`)
	e.Server.Drain()
	servertest.ExpectResponse(t, e.Serve("POST", runPath, `{"evalMetrics": []}`), http.StatusServiceUnavailable, `{"detail":"server is shutting down, retry later"}`)
}

// A result that cannot be read is not listed, and logged once until its file changes.
func TestUnreadableEvalResult(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e, dir := newEvalRunEnv(t, &evalweb.Options{}, &server.Options{Logger: logger})
	history := filepath.Join(dir, "shop", ".adk", "eval_history")
	file := filepath.Join(history, "shop_basics_1.5.evalset_result.json")
	write := func(text string) {
		t.Helper()
		if err := os.MkdirAll(history, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"eval_set_id": 7}`)
	for range 2 {
		servertest.ExpectResponse(t, e.Serve("GET", "/dev/apps/shop/eval-results", ""), http.StatusOK, `{"evalResultIds":[]}`)
	}
	if text := log.String(); strings.Count(text, "eval result cannot be read, and is not listed") != 1 || !strings.Contains(text, "shop_basics_1.5.evalset_result.json") {
		t.Errorf("log = %s, want one record with the file", text)
	}
	write(`{"eval_set_result_id": "shop_basics_1.5", "eval_set_id": "basics", "eval_case_results": []}`)
	servertest.ExpectResponse(t, e.Serve("GET", "/dev/apps/shop/eval_results", ""), http.StatusOK, `["shop_basics_1.5"]`)
}

// A result is served without its case sessions if they are above 4 MiB together, and each
// session by its ID.
func TestLargeEvalResult(t *testing.T) {
	e, dir := newEvalRunEnv(t, &evalweb.Options{}, nil)
	history := filepath.Join(dir, "shop", ".adk", "eval_history")
	if err := os.MkdirAll(history, 0o700); err != nil {
		t.Fatal(err)
	}
	for id, size := range map[string]int{"small": 1 << 20, "large": 3 << 20} {
		var cases []string
		for i := range 2 {
			cases = append(cases, fmt.Sprintf(`{"eval_id": "a", "final_eval_status": 1, "session_id": "adk-eval-session-%s-%d", "user_id": "u",
				"session_details": {"id": "adk-eval-session-%[1]s-%[2]d", "note": "%[3]s"}}`, id, i, strings.Repeat("x", size)))
		}
		text := `{"eval_set_result_id": "` + id + `", "eval_set_id": "basics", "eval_case_results": [` + strings.Join(cases, ",") + `]}`
		if err := os.WriteFile(filepath.Join(history, id+".evalset_result.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := strings.Count(e.Serve("GET", "/dev/apps/shop/eval_results/"+id, "").Body.String(), "sessionDetails")
		if want := map[string]int{"small": 2, "large": 0}[id]; got != want {
			t.Errorf("result %s has %d sessions, want %d", id, got, want)
		}
		w := e.Serve("GET", "/apps/shop/users/u/sessions/adk-eval-session-"+id+"-1", "")
		if w.Code != http.StatusOK || w.Body.Len() < size {
			t.Errorf("session of %s = %d with %d bytes", id, w.Code, w.Body.Len())
		}
	}
}

// Every path in ADK's evaluation API is served under both prefixes and in both spellings
// (adk-python cli/dev_server.py), and so are those that ADK's web client calls beyond it.
func TestEvalRoutes(t *testing.T) {
	const set = "/{name}"
	patterns := newEnv(t, nil).Server.Patterns()
	for _, tails := range [][]string{
		{"POST /eval-sets", "POST /eval_sets" + set},
		{"GET /eval-sets", "GET /eval_sets"},
		{"GET /eval-sets" + set, "GET /eval_sets" + set},
		{"DELETE /eval-sets" + set, "DELETE /eval_sets" + set},
		{"POST /eval-sets" + set + "/add-session", "POST /eval_sets" + set + "/add_session"},
		{"GET /eval-sets" + set + "/eval-cases", "GET /eval_sets" + set + "/evals"},
		{"GET /eval-sets" + set + "/eval-cases/{case}", "GET /eval_sets" + set + "/evals/{case}"},
		{"PUT /eval-sets" + set + "/eval-cases/{case}", "PUT /eval_sets" + set + "/evals/{case}"},
		{"DELETE /eval-sets" + set + "/eval-cases/{case}", "DELETE /eval_sets" + set + "/evals/{case}"},
		{"POST /eval-sets" + set + "/run", "POST /eval_sets" + set + "/run_eval"},
		{"GET /eval-results", "GET /eval_results"},
		{"GET /eval-results" + set, "GET /eval_results" + set},
		{"GET /metrics-info"},
	} {
		for _, tail := range tails {
			for _, prefix := range []string{"/dev/apps/{app}", "/apps/{app}"} {
				method, path, _ := strings.Cut(tail, " ")
				if pattern := method + " " + prefix + path; !slices.Contains(patterns, pattern) {
					t.Errorf("no route %s", pattern)
				}
			}
		}
	}
}

// Only administrators read eval sessions: a case may have any user's ID.
func TestEvalSessionOfUser(t *testing.T) {
	e, dir := newEvalRunEnv(t, &evalweb.Options{}, &server.Options{Auth: newAuth(t, `tokens: [{token: ana-ana-ana-ana-ana, claims: {sub: ana}}, {token: ops-ops-ops-ops-ops, claims: {sub: ops}}]
admin: claims.sub == "ops"`)})
	history := filepath.Join(dir, "shop", ".adk", "eval_history")
	if err := os.MkdirAll(history, 0o700); err != nil {
		t.Fatal(err)
	}
	const result = `{"eval_set_result_id": "shop_basics_1.5", "eval_set_id": "basics", "eval_case_results": [{"eval_id": "a", "final_eval_status": 1,
		"session_id": "adk-eval-session-1", "user_id": "ana", "session_details": {"id": "adk-eval-session-1", "app_name": "shop"}}]}`
	if err := os.WriteFile(filepath.Join(history, "shop_basics_1.5.evalset_result.json"), []byte(result), 0o600); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{"ana-ana-ana-ana-ana": `{"detail":"Session not found"}`, "ops-ops-ops-ops-ops": `{"appName":"shop","id":"adk-eval-session-1"}`} {
		r := httptest.NewRequest("GET", "/apps/shop/users/ana/sessions/adk-eval-session-1", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		e.Server.ServeHTTP(w, r)
		if got := w.Body.String(); got != want {
			t.Errorf("session for %s = %s, want %s", token, got, want)
		}
	}
}

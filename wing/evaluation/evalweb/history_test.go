package evalweb_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/store"
	"agenthost/wing/evaluation/evalrun"
	"agenthost/wing/evaluation/evalweb"
)

const replicaApp = `
-- apps/shop/root_agent.yaml --
name: shop
model: demo
instruction: Greet.
-- apps/shop/app.yaml --
models:
  demo: {provider: scripted, script: s.yaml}
-- apps/shop/s.yaml --
- text: Hello.
-- apps/shop/basics.eval.yaml --
metrics: {response_match: 1}
cases:
- {name: a, user: Hi, expect: {text: Hello.}}
`

// newEvalReplica returns a server on a session database, with its own folders.
func newEvalReplica(t *testing.T, url, app string, logger *slog.Logger) (*servertest.Env, string) {
	t.Helper()
	folders, dir := newFolders(), t.TempDir()
	evaluator := &evalrun.HostRunner{Apps: folders, Clock: servertest.FixedTime, NewID: func() string { return "one" }}
	e := newEnvWith(t, &evalweb.Options{Dev: true, Folders: folders, Evaluator: evaluator}, &servertest.Options{URL: url, Server: &server.Options{Logger: logger}})
	evaluator.Host = e.Host
	folders.LoadApps(t, e, txtar.Parse([]byte(app)), dir)
	return e, dir
}

func databaseURL(t *testing.T) string {
	return "sqlite:///" + filepath.ToSlash(filepath.Join(t.TempDir(), "s.db"))
}

// saveStored stores a result in the session database.
func saveStored(t *testing.T, e *servertest.Env, id, content string) {
	t.Helper()
	if err := e.Host.Store().Results.Save(t.Context(), &store.Result{App: "shop", ID: id, SetID: "basics", Content: []byte(content)}); err != nil {
		t.Fatal(err)
	}
}

const resultText = `{"eval_set_result_id": %q, "eval_set_id": "basics", "eval_case_results": []}`

// A run stores its result as a file and in the session database. A replica with other folders,
// and one without the app's folder, serve the result, its cases and their sessions.
func TestEvalResultOfReplica(t *testing.T) {
	url := databaseURL(t)
	first, dir := newEvalReplica(t, url, replicaApp, nil)
	if w := first.Serve("POST", "/dev/apps/shop/eval-sets/basics/run", `{"evalMetrics": []}`); w.Code != http.StatusOK {
		t.Fatalf("run = %d %s", w.Code, w.Body)
	}
	const id = "shop_basics_1795255200.25"
	if _, err := os.Stat(filepath.Join(dir, "shop", ".adk", "eval_history", id+".evalset_result.json")); err != nil {
		t.Error(err)
	}
	paths := []string{
		"/dev/apps/shop/eval-results", "/dev/apps/shop/eval_results/" + id, "/-/evals/shop/results/" + id, "/-/evals/shop/results/" + id + "/cases/0",
		"/apps/shop/users/test_user_id/sessions/adk-eval-session-one", "/dev/apps/shop/eval-sets/basics/eval-cases/a",
	}
	for name, app := range map[string]string{"another folder": replicaApp, "no folder": ""} {
		replica, _ := newEvalReplica(t, url, app, nil)
		for _, path := range paths {
			if app == "" && strings.Contains(path, "eval-sets") {
				continue // sets are files of the folder
			}
			servertest.ExpectResponse(t, replica.Serve("GET", path, ""), http.StatusOK, first.Serve("GET", path, "").Body.String())
		}
		if app == "" {
			replica.AddLLMApp(t, "shop", &runtime.LLMOptions{Model: servertest.ScriptedModel(t)})
		}
		if got := replica.Serve("GET", "/-/evals/shop", "").Body.String(); strings.Count(got, id) != 1 || !strings.Contains(got, `{"id":"`+id+`","setId":"basics","time":1795255200.25,"bytes":0}`) {
			t.Errorf("overview of the replica with %s = %s", name, got)
		}
	}
	if got := first.Serve("GET", "/-/evals/shop", "").Body.String(); strings.Count(got, id) != 1 {
		t.Errorf("overview = %s, want the result once", got)
	}
	other, _ := newEvalReplica(t, databaseURL(t), replicaApp, nil)
	servertest.ExpectResponse(t, other.Serve("GET", paths[0], ""), http.StatusOK, `{"evalResultIds":[]}`)
}

// Results in files and in the session database are listed together, newest first. For a
// result in both places, the file counts.
func TestEvalResultsOfBothPlaces(t *testing.T) {
	e, dir := newEvalReplica(t, databaseURL(t), replicaApp, nil)
	for _, at := range []string{"1.5", "3.5"} {
		id := "shop_basics_" + at
		saveFileOf(t, dir, id, fmt.Sprintf(resultText, id))
	}
	saveStored(t, e, "shop_basics_2.5", fmt.Sprintf(resultText, "shop_basics_2.5"))
	saveStored(t, e, "shop_basics_3.5", `{"eval_set_id": 7}`)
	saveStored(t, e, "../../secret", fmt.Sprintf(resultText, "secret"))
	got := e.Serve("GET", "/-/evals/shop", "").Body.String()
	at := 0
	for _, id := range []string{"shop_basics_3.5", "shop_basics_2.5", "shop_basics_1.5"} {
		next := strings.Index(got, id)
		if next < at || strings.Count(got, id) != 1 {
			t.Errorf("%s is not listed once in the order of time: %s", id, got)
		}
		at = next
	}
	if strings.Contains(got, "secret") {
		t.Errorf("overview = %s, want no ID that is a path", got)
	}
	servertest.ExpectResponse(t, e.Serve("GET", "/dev/apps/shop/eval_results", ""), http.StatusOK, `["shop_basics_1.5","shop_basics_2.5","shop_basics_3.5"]`)
}

func saveFileOf(t *testing.T, dir, id, text string) {
	t.Helper()
	history := filepath.Join(dir, "shop", ".adk", "eval_history")
	if err := os.MkdirAll(history, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(history, id+".evalset_result.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A stored result that is invalid is not listed, logged once until it changes, and missing.
func TestInvalidStoredEvalResult(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e, _ := newEvalReplica(t, databaseURL(t), replicaApp, logger)
	const id = "shop_basics_1.5"
	saveStored(t, e, id, `{"eval_set_id": 7}`)
	for range 2 {
		servertest.ExpectResponse(t, e.Serve("GET", "/dev/apps/shop/eval_results", ""), http.StatusOK, `[]`)
	}
	if text := log.String(); strings.Count(text, "eval result cannot be read, and is not listed") != 1 || !strings.Contains(text, id+" in the session database") {
		t.Errorf("log = %s, want one record with the ID", text)
	}
	w := e.Serve("GET", "/dev/apps/shop/eval_results/"+id, "")
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "Cannot read the file") {
		t.Errorf("result = %d %s", w.Code, w.Body)
	}
	servertest.ExpectResponse(t, e.Serve("GET", "/dev/apps/shop/eval_results/shop_basics_9.5", ""), http.StatusNotFound, "{\"detail\":\"Eval set result `shop_basics_9.5` not found.\"}")
}

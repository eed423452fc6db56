package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"agenthost/internal/command"
	"agenthost/wing/evaluation/eval"
)

const evalCases = 60

// writeEvalApp writes an app with a set of 60 cases, each of which calls the service once.
func writeEvalApp(t *testing.T, url string) (app string) {
	t.Helper()
	app = filepath.Join(t.TempDir(), "desk")
	saveFile(t, app, "app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\n")
	saveFile(t, app, "s.yaml", "- when: responses.stock != nil\n  text: done\n- calls: [{name: stock}]\n")
	saveFile(t, app, "root_agent.yaml", fmt.Sprintf("name: desk\nmodel: demo\ninstruction: Help.\ntools:\n- http: {name: stock, description: Counts., url: %q}\n", url))
	var cases []string
	for i := range evalCases {
		cases = append(cases, fmt.Sprintf(`{"eval_id": "c%d", "conversation": [{
			"user_content": {"parts": [{"text": "count"}]}, "final_response": {"parts": [{"text": "done"}]}}]}`, i))
	}
	saveFile(t, app, "stock.evalset.json", `{"eval_set_id": "stock", "eval_cases": [`+strings.Join(cases, ",")+"]}")
	return app
}

// resumeEval resumes an app's run, and checks that each case has one result.
func resumeEval(t *testing.T, app string) {
	t.Helper()
	var out, problems bytes.Buffer
	if code := run(t.Context(), []string{"eval", app, "--metrics", "response_match", "--resume"}, command.Env{Out: &out, Err: &problems}); code != command.ExitOK {
		t.Fatalf("resume: status %d\n%s%s", code, &out, &problems)
	}
	files, err := filepath.Glob(filepath.Join(app, ".adk", "eval_history", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("results = %v, %v, want one file", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	result, err := eval.ReadResult(files[0], text)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range result.Cases {
		if want := fmt.Sprintf("c%d", i); c.CaseID != want || c.Status != eval.Passed {
			t.Errorf("result %d is %s of case %s, want PASSED of %s", i, c.Status, c.CaseID, want)
		}
	}
	if len(result.Cases) != evalCases {
		t.Errorf("%d results, want %d", len(result.Cases), evalCases)
	}
}

// A run that is killed continues: each case has one result, and only cases that were running
// when the process died run again.
func TestEvalKilled(t *testing.T) {
	var calls atomic.Int64
	host := make(chan *os.Process, 1)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 20 {
			if err := (<-host).Kill(); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		}
		fmt.Fprint(w, "{}")
	}))
	defer service.Close()
	app := writeEvalApp(t, service.URL)
	cmd := exec.CommandContext(t.Context(), "agenthost", "eval", app, "--metrics", "response_match")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	host <- cmd.Process
	_ = cmd.Wait()
	resumeEval(t, app)
	if n := calls.Load(); n > evalCases+8 {
		t.Errorf("%d calls, want at most %d: the cases, and those that ran at the same time", n, evalCases+8)
	}
}

// A signal ends a run with a message that shows how to continue.
func TestEvalInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) == 6 {
			cancel()
			<-r.Context().Done()
		}
		fmt.Fprint(w, "{}")
	}))
	defer service.Close()
	app := writeEvalApp(t, service.URL)
	var out, problems bytes.Buffer
	code := run(ctx, []string{"eval", app, "--metrics", "response_match", "--parallel", "1"}, command.Env{Out: &out, Err: &problems})
	const want = "agenthost: interrupted after 5 of 60 case runs: continue with --resume\n"
	if code != command.ExitFailure || problems.String() != want || out.Len() > 0 {
		t.Errorf("status %d, stdout %q, stderr %q, want status 3 and %q", code, &out, &problems, want)
	}
	resumeEval(t, app)
}

// With --runs, the table has each case's share of passed runs with its interval, and pass@k and
// pass^k for k = 2. The summary has their means over the cases for all k.
func TestEvalRuns(t *testing.T) {
	var calls atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"n": %d}`, calls.Add(1))
	}))
	defer service.Close()
	app := filepath.Join(t.TempDir(), "desk")
	saveFile(t, app, "app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\n")
	saveFile(t, app, "s.yaml", "- {when: user == \"always\", text: Hello.}\n- {when: responses.stock != nil, text: \"{responses.stock.n}\"}\n- calls: [{name: stock}]\n")
	saveFile(t, app, "root_agent.yaml", fmt.Sprintf("name: desk\nmodel: demo\ninstruction: Help.\ntools:\n- http: {name: stock, description: Counts., url: %q}\n", service.URL))
	saveFile(t, app, "first.eval.yaml", `metrics: {response_match: 1}
cases:
- {name: always, user: always, expect: {text: Hello.}}
- {name: second, user: maybe, expect: {text: "2"}}
`)
	var out, problems bytes.Buffer
	code := run(t.Context(), []string{"eval", app, "--runs", "4", "--parallel", "1"}, command.Env{Out: &out, Err: &problems})
	const table = `case          status  passed  95 % interval   pass@2  pass^2  response_match  calls/turn  time
first:always  PASSED  4/4     0.51 to 1       1       1       1               0           <1s
first:second  FAILED  1/4     0.046 to 0.699  0.5     0       0.25 < 1        1           <1s
`
	if code != command.ExitProblems || !strings.HasPrefix(out.String(), table) {
		t.Errorf("status %d, stdout:\n%s\nwant:\n%s", code, &out, table)
	}
	for _, want := range []string{
		"\npass@k, mean over the cases: 0.625 (k=1), 0.75 (k=2), 0.875 (k=3), 1 (k=4)\n",
		"\npass^k, mean over the cases: 0.625 (k=1), 0.5 (k=2), 0.5 (k=3), 0.5 (k=4)\n",
	} {
		if !strings.Contains(problems.String(), want) {
			t.Errorf("stderr = %s, want %s", &problems, want)
		}
	}
	calls.Store(0)
	out.Reset()
	run(t.Context(), []string{"eval", app, "first:second", "--runs", "4", "--parallel", "1", "--output", "json"}, command.Env{Out: &out, Err: &problems})
	if want := `"passRate":{"share":0.25,"low":0.0455`; !strings.Contains(strings.Join(strings.Fields(out.String()), ""), want) {
		t.Errorf("stdout = %s, want %s", &out, want)
	}
}

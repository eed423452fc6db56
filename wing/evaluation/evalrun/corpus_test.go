package evalrun_test

import (
	"encoding/json"
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

// Every foreign eval set and test file runs on an app: each case has a result with all its
// turns, and the result is an ADK file that is read and written back equal.
func TestCorpusSetsRunWithoutCrash(t *testing.T) {
	root := os.Getenv("AGENTHOST_CORPUS")
	if root == "" {
		root = "../../../../shared/corpus"
	}
	root = filepath.Join(root, "evalsets")
	text, err := os.ReadFile(filepath.Join(root, "index.json"))
	if err != nil {
		t.Skipf("SKIPPED: no corpus: set AGENTHOST_CORPUS (%v)", err)
	}
	var index []struct{ File, Kind string }
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	dir := testenv.Files(t, "shop", map[string][]byte{
		"root_agent.yaml":  []byte(rootAgent),
		"app.yaml":         []byte(demoApp),
		"demo.script.yaml": []byte("- {when: agent == \"user\", text: </finished>}\n- text: Hello.\n"),
	})
	l := loader.New(testenv.Kinds(), &loader.Options{WrapModel: evalrun.WrapModel})
	app, ds := l.Load(t.Context(), dir)
	if app == nil {
		t.Fatal(ds)
	}
	defer app.Close()
	models, release, ds := l.OpenModels(t.Context(), dir, []string{"demo"})
	if models == nil {
		t.Fatal(ds)
	}
	defer release()
	sets := 0
	for _, f := range index {
		if f.Kind == "config" || f.Kind == "result" {
			continue
		}
		sets++
		t.Run(f.File, func(t *testing.T) {
			src, err := os.ReadFile(filepath.Join(root, f.File))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), filepath.Base(f.File))
			if err := os.WriteFile(path, src, 0o644); err != nil {
				t.Fatal(err)
			}
			jobs, err := evalrun.Plan(dir, []*eval.Selection{{Set: path}}, &evalrun.PlanOptions{Metrics: []string{"tool_trajectory", "response_match"}, Judge: "demo"})
			if err != nil {
				t.Fatal(err)
			}
			runner := &evalrun.Runner{App: app, Models: models, Runs: 1, Parallel: 2, Timeout: time.Minute}
			checkSetRuns(t, runner, jobs[0])
		})
	}
	if sets < 30 {
		t.Errorf("the corpus has %d sets, want at least 30", sets)
	}
}

// checkSetRuns runs a set, and checks that no case crashes and that the result is an ADK
// file.
func checkSetRuns(t *testing.T, runner *evalrun.Runner, job *evalrun.Job) {
	t.Helper()
	job.Set.ID = "corpus" // IDs of others need not be names of files
	journal, err := job.Begin(t.TempDir(), evalrun.Subject{App: "shop", Revision: "r1"}, time.Unix(1700000000, 0))
	if err == nil {
		err = runner.Run(t.Context(), job, journal)
	}
	if err != nil {
		t.Fatal(err)
	}
	path, err := journal.Finish()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	result, err := eval.ReadResult(path, text)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Cases) != len(job.Cases) {
		t.Errorf("%d results, want %d", len(result.Cases), len(job.Cases))
	}
	for i, c := range result.Cases {
		want := len(job.Cases[i].Conversation)
		if job.Cases[i].Scenario != nil {
			want = 1
		}
		if c.CaseID != job.Cases[i].ID || len(c.Turns) != want || len(c.Overall) == 0 {
			t.Errorf("case %s has %d turns and %d metrics, want case %s with %d turns: %v", c.CaseID, len(c.Turns), len(c.Overall), job.Cases[i].ID, want, listReasons(c))
		}
	}
	written, err := eval.EncodeFile(result)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(written)); diff != "" {
		t.Errorf("the result written back (-read +written):\n%.2000s", diff)
	}
}

func listReasons(c *eval.CaseResult) string {
	var all []string
	for _, n := range c.Notes {
		all = append(all, n.Reason)
	}
	return strings.Join(all, "; ")
}

//go:build linux || darwin

package evalrun

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agenthost/wing/evaluation/eval"
)

// A pipe named like a set, a config, an interrupted run, a result or a cached answer is never
// waited for: it is an error that names it, a result that is skipped, or no answer.
func TestPipesNamedLikeFiles(t *testing.T) {
	makePipe := func(path string) {
		t.Helper()
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expectError := func(err error, name string) {
		t.Helper()
		if want := name + ": not a regular file"; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"+eval.SetSuffix), []byte(`{"eval_set_id": "a", "eval_cases": [{"eval_id": "c", "conversation": []}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	jobs, err := Plan(dir, nil, &PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	history := t.TempDir()
	makePipe(filepath.Join(history, "shop_a_1.5"+journalSuffix))
	_, err = jobs[0].Resume(history, Subject{App: "shop"})
	expectError(err, "shop_a_1.5"+journalSuffix)
	makePipe(filepath.Join(history, "shop_a_1.5"+eval.ResultSuffix))
	if all, err := listResults(history); len(all) != 0 || err != nil {
		t.Errorf("listResults = %v, %v, want none", all, err)
	}

	makePipe(filepath.Join(dir, eval.ConfigFile))
	_, err = Plan(dir, nil, &PlanOptions{})
	expectError(err, eval.ConfigFile)
	makePipe(filepath.Join(dir, "b"+eval.SetSuffix))
	_, err = Plan(dir, nil, &PlanOptions{})
	expectError(err, "b"+eval.SetSuffix)

	key := hashStrings("a")
	file := filepath.Join(dir, filepath.FromSlash(filePath(key)))
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	makePipe(file)
	c := openTestCache(t, dir, nil)
	defer c.Close()
	if got, ok := c.getAnswer(key); ok {
		t.Errorf("getAnswer = %q, want none", got)
	}
	c.putAnswer(key, "yes")
	if got, ok := c.getAnswer(key); got != "yes" || !ok {
		t.Errorf("getAnswer = %q, %v after putAnswer, want yes", got, ok)
	}
}

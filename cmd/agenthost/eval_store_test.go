package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"agenthost/internal/command"
	"agenthost/pkg/store/storeurl"
	"agenthost/wing/evaluation/eval"
)

// With --session-db, the database has each result as the file has it.
func TestEvalSessionDB(t *testing.T) {
	app := filepath.Join(t.TempDir(), "shop")
	saveFile(t, app, "root_agent.yaml", "name: clerk\ninstruction: Greet.\nmodel: demo\n")
	saveFile(t, app, "app.yaml", "models:\n  demo: {provider: scripted, script: s.yaml}\n")
	saveFile(t, app, "s.yaml", "- text: Hello.\n")
	saveFile(t, app, "first.eval.yaml", "metrics: {response_match: 1}\ncases:\n- {name: hello, user: hi, expect: {text: Hello.}}\n")
	url := "sqlite:///" + filepath.ToSlash(filepath.Join(t.TempDir(), "r.db"))
	var out, problems bytes.Buffer
	if code := run(t.Context(), []string{"eval", app, "--model", "demo", "--session-db", url}, command.Env{Out: &out, Err: &problems}); code != command.ExitOK {
		t.Fatalf("status %d\n%s%s", code, &out, &problems)
	}
	st, err := storeurl.Open(t.Context(), url, &storeurl.Options{Schemes: storeSchemes()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	listed, err := st.Results.List(t.Context(), "shop")
	if err != nil || len(listed) != 1 || listed[0].SetID != "first" || listed[0].Model != "demo" || listed[0].Revision == "" {
		t.Fatalf("results = %+v, %v, want one of set first with model demo", listed, err)
	}
	stored, err := st.Results.Get(t.Context(), "shop", listed[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	result, err := eval.ReadResult("result.json", stored.Content)
	if err != nil || result.ID != listed[0].ID || result.Cases[0].Status != eval.Passed {
		t.Errorf("result = %+v, %v, want that of the run", result, err)
	}
	if code := run(t.Context(), []string{"eval", app, "--session-db", "oracle://x"}, command.Env{Out: &out, Err: &problems}); code != command.ExitFailure {
		t.Errorf("status %d with an unknown database, want %d", code, command.ExitFailure)
	}
}

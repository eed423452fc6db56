package main

import (
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/command"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
)

// record leaves out a last turn without an answer, for example after a client disconnected, and
// reports it; the test passes. A session with only such a turn cannot become a test.
func TestRecordSkipsUnansweredTurn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "echo")
	saveFile(t, dir, "root_agent.yaml", "name: echo\nmodel: demo\ninstruction: Repeat.\n")
	saveFile(t, dir, "app.yaml", "models: {demo: {provider: scripted, script: s.yaml}}\n")
	saveFile(t, dir, "s.yaml", "- text: \"You wrote: {user}\"\n")
	db := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	agenthost := func(args ...string) (code int, out, problems string) {
		var o, e strings.Builder
		code = run(t.Context(), append(args, "--session-db", db), command.Env{In: strings.NewReader(""), Out: &o, Err: &e})
		return code, o.String(), e.String()
	}
	if code, _, problems := agenthost("run", dir, "one", "--session", "s"); code != command.ExitOK {
		t.Fatal(problems)
	}
	st, err := storeurl.Open(t.Context(), db, &storeurl.Options{Schemes: storeSchemes()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Sessions.Create(t.Context(), session.Key{App: "echo", User: "user", ID: "only"}, nil); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"s", "only"} {
		sess, err := st.Sessions.Get(t.Context(), session.Key{App: "echo", User: "user", ID: id}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ev := &session.Event{Author: session.UserAuthor, InvocationID: "e-cut"}
		ev.Content = model.UserText("never answered")
		if err := st.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, problems := agenthost("record", dir, "s")
	if want := "agenthost: the last turn of session s has no answer and is not part of the test\n"; code != command.ExitOK || problems != want {
		t.Errorf("record = %d, stderr %q, want %q", code, problems, want)
	}
	if !strings.Contains(out, `user: "one"`) || strings.Contains(out, "never answered") {
		t.Errorf("the test is\n%s", out)
	}
	code, _, problems = agenthost("record", dir, "only")
	if want := "agenthost: cannot create a test from session only: the only turn was interrupted before an answer\n"; code != command.ExitFailure || problems != want {
		t.Errorf("record = %d, stderr %q, want %q", code, problems, want)
	}
}

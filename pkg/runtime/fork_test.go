package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// newDiary returns an app whose turns each count in the state, also for the user, and save a note.
func newDiary(t *testing.T, e *testenv.Env) session.Key {
	t.Helper()
	turns := 0
	note := func(ctx context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		turns++
		m.State.Set("turns", int64(turns))
		m.State.Set("user:turns", int64(turns))
		_, err := m.Artifacts.Save(ctx, "note.txt", &genai.Part{Text: fmt.Sprint("note ", turns)})
		return nil, err
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi"), Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{note}}}), nil)
	key := e.Session(t, "app", "s", map[string]any{"tier": "gold"})
	for _, text := range []string{"one", "two", "three"} {
		formatRun(e.Host.Run(t.Context(), userMessage(key, text)))
	}
	return key
}

// lastEvent returns the ID of the last event in a session's nth invocation, from 0.
func lastEvent(t *testing.T, e *testenv.Env, key session.Key, n int) string {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var invocations, last []string
	for _, ev := range sess.Events() {
		if len(invocations) == 0 || invocations[len(invocations)-1] != ev.InvocationID {
			invocations, last = append(invocations, ev.InvocationID), append(last, "")
		}
		last[len(last)-1] = ev.ID
	}
	return last[n]
}

func fork(t *testing.T, e *testenv.Env, key session.Key, after string) *session.Session {
	t.Helper()
	sess, err := e.Host.Fork(t.Context(), &runtime.ForkRequest{App: key.App, UserID: key.User, SessionID: key.ID, AfterEventID: after})
	if err != nil {
		t.Fatal(err)
	}
	return sess
}

// TestForkAsOfEvent: a fork has the events up to the named one, and the session's own state and
// files as they were then. user: keys are those of now, and the source does not change.
func TestForkAsOfEvent(t *testing.T) {
	e := testenv.New(t, nil)
	key := newDiary(t, e)
	before := storedAuthors(t, e, key)
	copied := fork(t, e, key, lastEvent(t, e, key, 1))
	want := map[string]any{"tier": "gold", "turns": int64(2), "user:turns": int64(3)}
	if diff := cmp.Diff(want, copied.State.All()); diff != "" {
		t.Errorf("state of the fork (-want +got):\n%s", diff)
	}
	part, err := e.Store.Artifacts.Load(t.Context(), copied.Key, "note.txt", -1)
	if err != nil || part.Text != "note 2" {
		t.Errorf("the fork's note = %v, %v; want note 2", part, err)
	}
	if part, err = e.Store.Artifacts.Load(t.Context(), copied.Key, "note.txt", 0); err != nil || part.Text != "note 1" {
		t.Errorf("the fork's version 0 = %v, %v; want note 1", part, err)
	}
	if got := storedAuthors(t, e, key); got != before {
		t.Errorf("events of the source after the fork: %s, want %s", got, before)
	}
	if got, want := formatRun(e.Host.Run(t.Context(), userMessage(copied.Key, "four"))), formatRun(e.Host.Run(t.Context(), userMessage(key, "four"))); got != want {
		t.Errorf("a run in the fork = %q, want %q as in the source", got, want)
	}
}

// TestForkOfRewoundEvent: a fork can begin with turns that a rewind has undone.
func TestForkOfRewoundEvent(t *testing.T) {
	e := testenv.New(t, nil)
	key := newDiary(t, e)
	last := lastEvent(t, e, key, 2)
	formatRun(e.Host.Rewind(t.Context(), &runtime.RewindRequest{App: key.App, UserID: key.User, SessionID: key.ID, AfterEventID: lastEvent(t, e, key, 0)}))
	if got := fork(t, e, key, "").State.All()["turns"]; got != int64(1) {
		t.Errorf("turns in a fork of the session = %v, want 1 as after the rewind", got)
	}
	if got := fork(t, e, key, last).State.All()["turns"]; got != int64(3) {
		t.Errorf("turns in a fork of the undone turn = %v, want 3", got)
	}
}

// TestForkKeepsProtectedKeys: a client's fork does not return to former values of keys that only
// agents may write; an administrator's does.
func TestForkKeepsProtectedKeys(t *testing.T) {
	e := testenv.New(t, nil)
	e.Load(t, testenv.Files(t, "shop", map[string][]byte{
		"app.yaml":        []byte("models:\n  demo: {provider: scripted, script: s.yaml}\n"),
		"s.yaml":          []byte("- text: ok\n"),
		"root_agent.yaml": []byte("name: shop\nmodel: demo\ninstruction: Sell.\nstate_schema:\n  credits: {type: integer, writable: agent}\n  topic: string\n"),
	}))
	key := e.Session(t, "shop", "s", nil)
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, delta := range []map[string]any{{"credits": int64(3), "topic": "tea"}, {"credits": int64(0), "topic": "milk"}} {
		ev := &session.Event{ID: fmt.Sprint("e", i), InvocationID: fmt.Sprint("i", i), Author: "shop"}
		ev.Content, ev.Actions.StateDelta = model.UserText("sold"), delta
		if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
	for writer, credits := range map[session.Writer]int64{session.WriterClient: 0, session.WriterAdmin: 3} {
		copied, err := e.Host.Fork(t.Context(), &runtime.ForkRequest{App: key.App, UserID: key.User, SessionID: key.ID, AfterEventID: "e0", Writer: writer})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]any{"credits": credits, "topic": "tea"}, copied.State.All()); diff != "" {
			t.Errorf("state of a fork by writer %v (-want +got):\n%s", writer, diff)
		}
	}
}

// TestForkInvalid: an invalid fork fails and leaves no session.
func TestForkInvalid(t *testing.T) {
	e := testenv.New(t, nil)
	key := newDiary(t, e)
	full := e.Session(t, "app", "full", nil)
	for i := range 1001 {
		if _, err := e.Store.Artifacts.Save(t.Context(), full, "log.txt", &genai.Part{Text: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		req  runtime.ForkRequest
		want string
	}{
		{"no such event", runtime.ForkRequest{AfterEventID: "e"}, "Event not found: e"},
		{"no such session", runtime.ForkRequest{SessionID: "other"}, "Session not found: other"},
		{"no such app", runtime.ForkRequest{App: "other"}, "App not found: other"},
		{"too many files", runtime.ForkRequest{SessionID: full.ID}, "cannot fork session full: its files exceed the limit of 1000 versions"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := tt.req
			req.UserID = key.User
			if req.App == "" {
				req.App = key.App
			}
			if req.SessionID == "" {
				req.SessionID = key.ID
			}
			_, err := e.Host.Fork(t.Context(), &req)
			var runErr *runtime.RunError
			if !errors.As(err, &runErr) || runErr.Message != tt.want {
				t.Errorf("Fork = %v, want %s", err, tt.want)
			}
			all, err := e.Store.Sessions.List(t.Context(), key.App, key.User)
			if err != nil || len(all) != 2 {
				t.Errorf("%d sessions after the fork, %v; want 2", len(all), err)
			}
		})
	}
}

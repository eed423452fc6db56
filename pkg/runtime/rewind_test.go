package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// TestRewindInvalid: an invalid rewind fails and changes nothing.
func TestRewindInvalid(t *testing.T) {
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi")}), nil)
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "one")))
	tests := []struct {
		name string
		req  runtime.RewindRequest
		want string
	}{
		{"neither", runtime.RewindRequest{}, "error INVALID_REQUEST: a rewind requires either the invocation to undo or the last event to keep\n"},
		{"both", runtime.RewindRequest{BeforeInvocationID: "i", AfterEventID: "e"}, "error INVALID_REQUEST: a rewind requires either the invocation to undo or the last event to keep\n"},
		{"no such invocation", runtime.RewindRequest{BeforeInvocationID: "i"}, "error INVALID_REQUEST: Invocation ID not found: i\n"},
		{"no such event", runtime.RewindRequest{AfterEventID: "e"}, "error INVALID_REQUEST: Event not found: e\n"},
		{"empty message", runtime.RewindRequest{AfterEventID: "e", Message: &genai.Content{}}, "error INVALID_REQUEST: No parts in the new_message.\n"},
		{"no such session", runtime.RewindRequest{AfterEventID: "e", SessionID: "other"}, "error SESSION_NOT_FOUND: Session not found: other\n"},
		{"no such app", runtime.RewindRequest{App: "other", AfterEventID: "e", Message: model.UserText("x")}, "error APP_NOT_FOUND: App not found: other\n"},
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
			if got := formatRun(e.Host.Rewind(t.Context(), &req)); got != tt.want {
				t.Errorf("Rewind = %q, want %q", got, tt.want)
			}
			if got := storedAuthors(t, e, key); got != "user a" {
				t.Errorf("stored: %s, want user a", got)
			}
		})
	}
}

// TestRewindNothing: a rewind to the last event stores no event.
func TestRewindNothing(t *testing.T) {
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi")}), nil)
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "one")))
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	req := &runtime.RewindRequest{App: key.App, UserID: key.User, SessionID: key.ID, AfterEventID: sess.Events()[1].ID}
	if got := formatRun(e.Host.Rewind(t.Context(), req)); got != "" {
		t.Errorf("Rewind = %q, want nothing", got)
	}
	if got := storedAuthors(t, e, key); got != "user a" {
		t.Errorf("stored: %s, want user a", got)
	}
}

// TestRewindMissingArtifact: an artifact whose former version was deleted is empty
// after the rewind, as in ADK, and a warning is logged (semantics 11).
func TestRewindMissingArtifact(t *testing.T) {
	var log bytes.Buffer
	e := testenv.New(t, &testenv.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	note := func(ctx context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		m.State.Set("noted", m.ID())
		_, err := m.Artifacts.Save(ctx, "note.txt", &genai.Part{Text: m.ID()})
		return nil, err
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi"), Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{note}}}), nil)
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "one")))
	formatRun(e.Host.Run(t.Context(), userMessage(key, "two")))
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := sess.Events()[sess.History.Len()-1].InvocationID
	if err := e.Store.Artifacts.Delete(t.Context(), key, "note.txt"); err != nil {
		t.Fatal(err)
	}
	req := &runtime.RewindRequest{App: key.App, UserID: key.User, SessionID: key.ID, BeforeInvocationID: last}
	if got := formatRun(e.Host.Rewind(t.Context(), req)); got != "" {
		t.Errorf("Rewind = %q, want nothing", got)
	}
	if _, err := e.Store.Artifacts.Load(t.Context(), key, "note.txt", -1); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("Load after the rewind = %v, want not found", err)
	}
	const want = `level=WARN msg="cannot restore artifact: its former version no longer exists" app=app session=s artifact=note.txt version=0`
	if !strings.Contains(log.String(), want) {
		t.Errorf("log = %q, want %q in it", log.String(), want)
	}
}

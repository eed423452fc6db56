package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// revisionLoader builds apps for any revision except gone and broken; each app answers with its
// revision.
type revisionLoader struct {
	*testing.T
	policy        runtime.SessionPolicy
	keep          int
	resumable     bool
	built, closed atomic.Int32
}

func (s *revisionLoader) load(_ context.Context, name, revision string) (*runtime.App, error) {
	switch revision {
	case "gone":
		return nil, fmt.Errorf("revision gone: %w", session.ErrNotFound)
	case "broken":
		return nil, errors.New("a variable is missing")
	}
	s.built.Add(1)
	return runtime.NewApp(name, runtime.NewLLM("a", nil), &runtime.AppOptions{
		Model: modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
			return model.ModelText("revision " + revision), nil
		}),
		Revision: revision, Reload: &runtime.ReloadOptions{Sessions: s.policy, KeepRevisions: s.keep}, Resumable: s.resumable,
		Close: func() { s.closed.Add(1) },
	})
}

func newRevisionLoader(t *testing.T, policy runtime.SessionPolicy) (*revisionLoader, *testenv.Env) {
	s := &revisionLoader{T: t, policy: policy, keep: 2}
	e := testenv.New(t, nil)
	e.Host = runtime.NewHost(e.Store, &runtime.Options{LoadRevision: s.load})
	t.Cleanup(e.Host.Close)
	return s, e
}

func (s *revisionLoader) swapTo(e *testenv.Env, revision string) {
	s.Helper()
	app, err := s.load(s.Context(), "app", revision)
	if err != nil {
		s.Fatal(err)
	}
	e.Host.Swap(app)
}

func (s *revisionLoader) wantRevision(e *testenv.Env, key session.Key, want string) {
	s.Helper()
	if got := formatRun(e.Host.Run(s.Context(), userMessage(key, "hi"))); !strings.HasPrefix(got, "a: revision "+want+"\n") {
		s.Errorf("session %s got %q, want revision %s", key.ID, got, want)
	}
}

// TestSessionPolicies: a change applies to every session with its next turn, or
// only to new sessions.
func TestSessionPolicies(t *testing.T) {
	for policy, want := range map[runtime.SessionPolicy]string{runtime.FollowNextTurn: "two", runtime.FollowNewSessions: "one"} {
		t.Run(string(policy), func(t *testing.T) {
			s, e := newRevisionLoader(t, policy)
			old := e.Session(t, "app", "old", nil)
			s.swapTo(e, "one")
			s.wantRevision(e, old, "one")
			s.swapTo(e, "two")
			s.wantRevision(e, old, want)
			s.wantRevision(e, e.Session(t, "app", "new", nil), "two")
			sess, err := e.Store.Sessions.Get(t.Context(), old, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, ev := range sess.Events() {
				if made := map[bool]string{true: "one", false: want}[i < 2]; ev.Provenance.Revision != made {
					t.Errorf("event %d names revision %q, want %q", i, ev.Provenance.Revision, made)
				}
			}
			e.Host.Remove("app")
			if built, closed := s.built.Load(), s.closed.Load(); built != closed {
				t.Errorf("%d apps were built and %d closed", built, closed)
			}
		})
	}
}

// TestRevisionImported: events that a client wrote, or could have written before
// provenance had a column, choose no revision.
func TestRevisionImported(t *testing.T) {
	for name, p := range map[string]session.Provenance{
		"imported": {Imported: true}, "imported with a revision": {Imported: true, Revision: "one"},
		"unverified": {Unverified: true, Revision: "one"}, "in customMetadata": {},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := newRevisionLoader(t, runtime.FollowNewSessions)
			key := e.Session(t, "app", "s", nil)
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			ev := &session.Event{ID: "1", InvocationID: "e-1", Author: "a", Provenance: p}
			ev.Content, ev.CustomMetadata = model.ModelText("hi"), map[string]any{"agenthost.revision": "one"}
			if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
				t.Fatal(err)
			}
			s.swapTo(e, "two")
			s.wantRevision(e, key, "two")
		})
	}
}

// TestRevisionsBounded: the cache keeps the most recently used revisions, up to a
// limit.
func TestRevisionsBounded(t *testing.T) {
	s, e := newRevisionLoader(t, runtime.FollowNewSessions)
	var keys []session.Key
	for i, revision := range []string{"r0", "r1", "r2", "r3"} {
		keys = append(keys, e.Session(t, "app", fmt.Sprint("s", i), nil))
		s.swapTo(e, revision)
		s.wantRevision(e, keys[i], revision)
	}
	before := s.built.Load()
	for range 2 {
		s.wantRevision(e, keys[1], "r1")
		s.wantRevision(e, keys[2], "r2")
	}
	if n := s.built.Load() - before; n != 2 {
		t.Errorf("%d apps were built for two revisions, want 2", n)
	}
	s.wantRevision(e, keys[0], "r0")
	s.wantRevision(e, keys[2], "r2")
	if n := s.built.Load() - before; n != 3 {
		t.Errorf("%d apps were built, want 3: the one used last is still there", n)
	}
}

// TestRevisionNotKept: a session whose revision is unavailable continues with the one
// that serves; an invocation that waits does not.
func TestRevisionNotKept(t *testing.T) {
	for _, missing := range []struct{ revision, why string }{{"gone", "is no longer kept"}, {"broken", "cannot be loaded"}} {
		t.Run(missing.revision, func(t *testing.T) {
			s, e := newRevisionLoader(t, runtime.FollowNewSessions)
			s.resumable = true
			key := e.Session(t, "app", "s", nil)
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			ev := &session.Event{ID: "1", InvocationID: "e-1", Author: session.UserAuthor}
			ev.Content = model.UserText("hi")
			ev.Provenance.Revision = missing.revision
			if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
				t.Fatal(err)
			}
			s.swapTo(e, "two")
			req := userMessage(key, "")
			req.Message, req.InvocationID = nil, "e-1"
			want := "error INVALID_REQUEST: the invocation cannot be resumed: revision " + missing.revision + " of app app, which started it, " + missing.why + "; start a new one\n"
			if got := formatRun(e.Host.Run(t.Context(), req)); got != want {
				t.Errorf("resumed: %q, want %q", got, want)
			}
			s.wantRevision(e, key, "two")
		})
	}
}

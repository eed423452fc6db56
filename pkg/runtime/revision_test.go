package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

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
	// waits, if set, is called before each build.
	waits func(ctx context.Context, revision string) error
}

func (s *revisionLoader) load(ctx context.Context, name, revision string) (*runtime.App, error) {
	if s.waits != nil {
		if err := s.waits(ctx, revision); err != nil {
			return nil, err
		}
	}
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

// TestSlowBuild: runs that need one revision build it once, and builds of others do not wait for it. If
// the run that builds is canceled, another one builds.
func TestSlowBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, e := newRevisionLoader(t, runtime.FollowNewSessions)
		s.keep = 3
		var keys []session.Key
		for i, revision := range []string{"slow", "slow", "slow", "fast"} {
			keys = append(keys, e.Session(t, "app", fmt.Sprint("s", i), nil))
			s.swapTo(e, revision)
			s.wantRevision(e, keys[i], revision)
		}
		s.swapTo(e, "now")
		before, builds, proceed := s.built.Load(), 0, make(chan struct{})
		s.waits = func(ctx context.Context, revision string) error {
			if revision == "fast" {
				return nil
			}
			builds++ // at most one at a time
			select {
			case <-proceed:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		first, cancel := context.WithCancel(t.Context())
		results := make([]string, 3)
		var runs sync.WaitGroup
		for i, ctx := range []context.Context{first, t.Context(), t.Context()} {
			runs.Go(func() { results[i] = formatRun(e.Host.Run(ctx, userMessage(keys[i], "hi"))) })
			synctest.Wait() // the first one builds
		}
		s.wantRevision(e, keys[3], "fast")
		if builds != 1 {
			t.Errorf("%d builds run, want 1", builds)
		}
		cancel()
		synctest.Wait()
		if builds != 2 {
			t.Errorf("%d builds after the first was canceled, want 2", builds)
		}
		close(proceed)
		runs.Wait()
		for i, got := range results {
			if want := strings.HasPrefix(got, "a: revision slow\n"); want != (i > 0) {
				t.Errorf("run %d: %q", i, got)
			}
		}
		if n := s.built.Load() - before; n != 2 {
			t.Errorf("%d apps were built, want 2", n)
		}
	})
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

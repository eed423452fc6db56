package storetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// openLimited opens a store with small limits.
func (su *Suite) openLimited(t *testing.T) *testStore {
	t.Helper()
	return su.open(t, &store.Options{MaxStateBytes: 1 << 10, MaxEventBytes: 4 << 10, MaxSessionBytes: 16 << 10})
}

// wantLimit checks which limit an error reports.
func wantLimit(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, session.ErrInvalid) || !errors.Is(err, session.ErrTooLarge) || err.Error() != want {
		t.Errorf("error is %v, want %q", err, want)
	}
}

// A write that makes the state of a scope larger than the limit is rejected before
// anything is stored, and the session stays usable. Each scope has a limit of its
// own.
func (su *Suite) testStateLimit(t *testing.T) {
	s := su.openLimited(t)
	for _, scope := range []string{"session", "user", "app"} {
		key := session.Key{App: "limited", User: "alice", ID: scope}
		prefix := map[string]string{"session": "", "user": "user:", "app": "app:"}[scope]
		want := fmt.Sprintf("state of the %s exceeds the limit of 1 KiB", scope)
		sess := createSession(t, s, key, map[string]any{prefix + "a": strings.Repeat("x", 600)})
		before := sess.State.All()

		over := stateEvent(map[string]any{prefix + "b": strings.Repeat("x", 600)})
		wantLimit(t, s.Sessions.Append(t.Context(), sess, over), want)
		diff(t, "events", 0, len(getSession(t, s, key, nil).Events()))
		diff(t, "state", before, getSession(t, s, key, nil).State.All())
		diff(t, "state in memory", before, sess.State.All())

		// The parts of one key count, and writes one after the other.
		appendEvent(t, s, sess, stateEvent(map[string]any{prefix + "b": map[string]any{"list": []any{"x", 12345, nil, 1.5}}}))
		appendEvent(t, s, sess, stateEvent(map[string]any{prefix + "c": strings.Repeat("x", 300)}))
		wantLimit(t, s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{prefix + "d": strings.Repeat("x", 90)})), want)
		appendEvent(t, s, sess, stateEvent(map[string]any{prefix + "a": nil, prefix + "d": strings.Repeat("x", 600)}))
		diff(t, "events", 3, len(getSession(t, s, key, nil).Events()))
	}
}

// The state that a session begins with has the same limits, together with what
// the user and the app have already.
func (su *Suite) testStateLimitCreate(t *testing.T) {
	s := su.openLimited(t)
	long := strings.Repeat("x", 600)
	createSession(t, s, alice, map[string]any{"user:a": long, "app:a": long, "a": long, "temp:a": strings.Repeat("x", 2000)})
	large := session.Key{App: "app", User: "alice", ID: "large"}
	for prefix, scope := range map[string]string{"": "session", "user:": "user", "app:": "app"} {
		state := map[string]any{prefix + "b": long}
		if prefix == "" {
			state["c"] = long
		}
		_, err := s.Sessions.Create(t.Context(), large, state)
		wantLimit(t, err, fmt.Sprintf("state of the %s exceeds the limit of 1 KiB", scope))
		if _, err := s.Sessions.Get(t.Context(), large, nil); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("the session is there: %v", err)
		}
	}
	createSession(t, s, session.Key{App: "app", User: "bob", ID: "s"}, map[string]any{"user:b": long})
}

// Updates are checked by the value that is stored, also when the session was read
// before others made it larger.
func (su *Suite) testStateLimitUpdates(t *testing.T) {
	s := su.openLimited(t)
	for prefix, scope := range map[string]string{"": "session", "user:": "user", "app:": "app"} {
		want := fmt.Sprintf("state of the %s exceeds the limit of 1 KiB", scope)
		key := session.Key{App: "limited", User: "alice", ID: "updates-" + scope}
		item := strings.Repeat("x", 300)
		sess := createSession(t, s, key, nil)
		early := getSession(t, s, key, nil)
		for range 3 {
			appendEvent(t, s, sess, updateEvent(prefix+"list", session.UpdateAppend, item))
		}
		before := getSession(t, s, key, nil).State.All()
		wantLimit(t, s.Sessions.Append(t.Context(), sess, updateEvent(prefix+"list", session.UpdateAppend, item)), want)
		if prefix != "" {
			other := key
			other.ID += "-other"
			second := createSession(t, s, other, nil)
			second.State = early.State
			wantLimit(t, s.Sessions.Append(t.Context(), second, updateEvent(prefix+"list", session.UpdateAppend, item)), want)
		}
		diff(t, "state", before, getSession(t, s, key, nil).State.All())
		diff(t, "events", 3, len(getSession(t, s, key, nil).Events()))
		appendEvent(t, s, sess, updateEvent(prefix+"n", session.UpdateAdd, 1))
	}
}

// A scope that is larger than the limit, because an operator imported it or has
// lowered the limit, may become smaller, and other writes are stored.
func (su *Suite) testStateLimitShrink(t *testing.T) {
	db := su.Create(t)
	a, b := openStore(t, db, nil), openStore(t, db, &store.Options{MaxStateBytes: 1 << 10})
	createSession(t, a, alice, map[string]any{"user:a": strings.Repeat("x", 4000), "user:b": strings.Repeat("x", 4000)})
	sess := getSession(t, b, alice, nil)
	appendEvent(t, b, sess, textEvent("user", "hi"))
	appendEvent(t, b, sess, stateEvent(map[string]any{"k": 1}))
	appendEvent(t, b, sess, stateEvent(map[string]any{"user:a": strings.Repeat("x", 3000)}))
	wantLimit(t, b.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"user:c": 1})), "state of the user exceeds the limit of 1 KiB")
	appendEvent(t, b, sess, stateEvent(map[string]any{"user:a": nil, "user:b": nil}))
	appendEvent(t, b, sess, stateEvent(map[string]any{"user:c": 1}))
}

// An event that is too long is rejected, and the session stays usable.
func (su *Suite) testEventLimit(t *testing.T) {
	s := su.openLimited(t)
	sess := createSession(t, s, alice, nil)
	const want = "event exceeds the limit of 4 KiB"
	wantLimit(t, s.Sessions.Append(t.Context(), sess, textEvent("user", strings.Repeat("x", 5000))), want)
	// Escapes count: the JSON of these is six times as long.
	wantLimit(t, s.Sessions.Append(t.Context(), sess, textEvent("user", strings.Repeat("\x01", 800))), want)
	appendEvent(t, s, sess, textEvent("user", "hi"))
	for range 3 {
		appendEvent(t, s, sess, updateEvent("user:list", session.UpdateAppend, strings.Repeat("x", 200)))
	}
	ev := updateEvent("user:list", session.UpdateAppend, "x")
	ev.Content = textEvent("user", strings.Repeat("x", 3500)).Content
	wantLimit(t, s.Sessions.Append(t.Context(), sess, ev), want)
	diff(t, "events", 4, len(getSession(t, s, alice, nil).Events()))
}

// A session that has reached the limit rejects further events from every store and
// handle; other sessions are unaffected.
func (su *Suite) testSessionLimit(t *testing.T) {
	s := su.openLimited(t)
	const want = "session exceeds the limit of 16 KiB: start a new session"
	sess := createSession(t, s, alice, nil)
	for range 5 {
		appendEvent(t, s, sess, textEvent("user", strings.Repeat("x", 2800)))
	}
	large := func() *session.Event { return textEvent("user", strings.Repeat("x", 2800)) }
	wantLimit(t, s.Sessions.Append(t.Context(), sess, large()), want)
	few := 2
	wantLimit(t, s.Sessions.Append(t.Context(), getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &few}), large()), want)
	s.dropCache()
	wantLimit(t, s.Sessions.Append(t.Context(), getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &few}), large()), want)
	s.dropCache()
	wantLimit(t, s.Sessions.Append(t.Context(), sess, large()), want)
	diff(t, "events", 5, len(getSession(t, s, alice, nil).Events()))
	appendEvent(t, s, getSession(t, s, alice, nil), textEvent("user", "short"))
	appendEvent(t, s, createSession(t, s, session.Key{App: "app", User: "alice", ID: "next"}, nil), large())
}

// Large writes of shared state wait for each other, so that many at once do not
// exceed the limit together: neither appends, whose readers have not seen the other
// writes, nor updates, nor new sessions.
func (su *Suite) testStateLimitConcurrent(t *testing.T) {
	const writers, each = 12, 100 << 10
	writes := map[string]func(t *testing.T, s *testStore, sess *session.Session) error{
		"append": func(t *testing.T, s *testStore, sess *session.Session) error {
			return s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"user:" + sess.ID: strings.Repeat("x", each)}))
		},
		"update": func(t *testing.T, s *testStore, sess *session.Session) error {
			return s.Sessions.Append(t.Context(), sess, updateEvent("user:"+sess.ID, session.UpdateAppend, strings.Repeat("x", each)))
		},
		"create": func(t *testing.T, s *testStore, sess *session.Session) error {
			key := sess.Key
			key.ID += "-new"
			_, err := s.Sessions.Create(t.Context(), key, map[string]any{"user:" + sess.ID: strings.Repeat("x", each)})
			return err
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			s := su.open(t, &store.Options{MaxStateBytes: 500 << 10})
			var all []*session.Session
			for i := range writers {
				all = append(all, createSession(t, s, session.Key{App: "app", User: "alice", ID: fmt.Sprint(i)}, nil))
			}
			var stored atomic.Int64
			var wait sync.WaitGroup
			for _, sess := range all {
				wait.Go(func() {
					switch err := write(t, s, sess); {
					case err == nil:
						stored.Add(1)
					case !errors.Is(err, session.ErrTooLarge):
						t.Error(err)
					}
				})
			}
			wait.Wait()
			diff(t, "writes that were stored", int64(4), stored.Load())
			diff(t, "keys", 4, len(getSession(t, s, all[0].Key, nil).State.All()))
		})
	}
}

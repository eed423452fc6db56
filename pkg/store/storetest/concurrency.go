package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"agenthost/pkg/session"
)

// runConcurrently runs n goroutines and reports their errors.
func runConcurrently(t *testing.T, n int, run func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := run(i); err != nil {
				t.Errorf("goroutine %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func (su *Suite) testConcurrentSessions(t *testing.T) {
	const sessions, events = 64, 10
	s := su.open(t, nil)
	key := func(i int) session.Key { return session.Key{App: "app", User: fmt.Sprint("u", i%8), ID: fmt.Sprint(i)} }
	runConcurrently(t, sessions, func(i int) error {
		_, err := s.Sessions.Create(t.Context(), key(i), nil)
		for n := 0; n < events && err == nil; n++ {
			var sess *session.Session
			if sess, err = s.Sessions.Get(t.Context(), key(i), nil); err == nil {
				err = s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{fmt.Sprint("k", n): i}))
			}
		}
		return err
	})
	s.dropCache()
	for i := range sessions {
		sess := getSession(t, s, key(i), nil)
		if sess.History.Len() != events || len(sess.State.All()) != events {
			t.Errorf("session %d has %d events, %d keys", i, sess.History.Len(), len(sess.State.All()))
		}
		for n, e := range sess.Events() {
			if e.Seq != int64(n+1) {
				t.Errorf("session %d: event %d has seq %d", i, n, e.Seq)
			}
		}
	}
}

func (su *Suite) testConcurrentSharedStateWrites(t *testing.T) {
	const writers, keys = 16, 20
	s := su.open(t, nil)
	runConcurrently(t, writers, func(i int) error {
		key := session.Key{App: "app", User: fmt.Sprint("u", i%4), ID: fmt.Sprint(i)}
		sess, err := s.Sessions.Create(t.Context(), key, nil)
		for n := 0; n < keys && err == nil; n++ {
			name := fmt.Sprint(i, "-", n)
			err = s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"app:" + name: n, "user:" + name: n, "app:same": n}))
		}
		return err
	})
	sess := createSession(t, s, session.Key{App: "app", User: "u0"}, nil)
	want := writers*keys + 1 + writers/4*keys
	if got := len(sess.State.All()); got != want {
		t.Errorf("state has %d keys, want %d", got, want)
	}
}

func (su *Suite) testConcurrentSessionWrites(t *testing.T) {
	const writers, rounds = 8, 20
	s := su.open(t, nil)
	createSession(t, s, alice, nil)
	var stored atomic.Int64
	runConcurrently(t, writers, func(i int) error {
		for range rounds {
			sess, err := s.Sessions.Get(t.Context(), alice, nil)
			if err != nil {
				return err
			}
			switch err = s.Sessions.Append(t.Context(), sess, textEvent("user", fmt.Sprint(i))); {
			case err == nil:
				stored.Add(1)
			case !errors.Is(err, session.ErrStale):
				return err
			}
		}
		return nil
	})
	cached := getSession(t, s, alice, nil)
	s.dropCache()
	sess := getSession(t, s, alice, nil)
	diff(t, "cached and stored", plainState(t, sess), plainState(t, cached))
	if sess.Version != stored.Load() || int64(sess.History.Len()) != stored.Load() {
		t.Errorf("version %d, %d events, want %d", sess.Version, sess.History.Len(), stored.Load())
	}
}

func (su *Suite) testConcurrentCreateDeleteRead(t *testing.T) {
	s := su.open(t, nil)
	runConcurrently(t, 8, func(i int) error {
		for range 20 {
			sess, err := s.Sessions.Create(t.Context(), alice, nil)
			if err == nil {
				err = s.Sessions.Append(t.Context(), sess, textEvent("user", "hi"))
			}
			if err == nil {
				sess, err = s.Sessions.Get(t.Context(), alice, nil)
			}
			if err == nil && int64(sess.History.Len()) < sess.Version {
				err = fmt.Errorf("version %d with %d events", sess.Version, sess.History.Len())
			}
			if err == nil {
				err = s.Sessions.Delete(t.Context(), alice)
			}
			known := errors.Is(err, session.ErrExists) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrStale)
			if err != nil && !known {
				return err
			}
		}
		return nil
	})
}

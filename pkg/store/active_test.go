package store_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// A session is running while a run has it, in this store or in another one, however many sessions are
// newer. It is not after the run, and looking does not acquire its lease.
func TestIsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		backends := memstore.NewBackends()
		backends.Unshared = false
		one, two := store.New(backends, nil), store.New(backends, nil)
		t.Cleanup(func() {
			if err := one.Close(); err != nil {
				t.Error(err)
			}
			_ = two.Close() // shares what is closed
		})
		createSession(t, one, alice, nil)
		for i := range 1001 {
			createSession(t, one, session.Key{App: "app", User: "bob", ID: fmt.Sprint(i)}, nil)
		}
		wantRunning(t, false, one, two)
		release := acquire(t, one.Sessions, alice)
		wantRunning(t, true, one, two)
		release()
		wantRunning(t, false, one)
		time.Sleep(300 * time.Millisecond) // the other store's idle lease ends
		wantRunning(t, false, two)
		release = acquire(t, two.Sessions, alice)
		wantRunning(t, true, one, two)
		release()
		missing, err := one.Sessions.IsRunning(t.Context(), session.Key{App: "app", User: "alice", ID: "missing"})
		if err != nil || missing {
			t.Errorf("a missing session: %v, %v", missing, err)
		}
	})
}

func wantRunning(t *testing.T, want bool, stores ...*store.Store) {
	t.Helper()
	for i, s := range stores {
		if got, err := s.Sessions.IsRunning(t.Context(), alice); err != nil || got != want {
			t.Errorf("store %d: IsRunning = %v, %v, want %v", i, got, err, want)
		}
	}
}

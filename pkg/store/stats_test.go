package store

import (
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/session"
)

// TestStats: sessions are cached from their creation; waiting runs are counted, and
// their waiting time is recorded when they stop waiting.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t, "memory:", nil)
		if _, err := st.Sessions.Create(t.Context(), alice, nil); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := st.Sessions.Get(t.Context(), alice, nil); err != nil {
				t.Fatal(err)
			}
		}
		release, done := acquire(t, st.Sessions, alice), make(chan struct{})
		go func() {
			defer close(done)
			acquire(t, st.Sessions, alice)()
		}()
		synctest.Wait()
		if got := st.Stats().Queue; got != (Waits{Now: 1}) {
			t.Errorf("Queue while one waits = %+v", got)
		}
		time.Sleep(time.Second)
		release()
		<-done
		got := st.Stats()
		if got.CacheBytes <= 0 {
			t.Errorf("CacheBytes = %d", got.CacheBytes)
		}
		got.CacheBytes = 0
		diff(t, "Stats()", Stats{CacheHits: 3, CacheMisses: 1, CacheSessions: 1, Queue: Waits{Ended: 1, Took: time.Second}}, got)
	})
}

// TestStatsOfWrites: each write of a database is counted, and so is each
// transaction.
func TestStatsOfWrites(t *testing.T) {
	st := openStore(t, "sqlite:///"+t.TempDir()+"/a.db", nil)
	before := st.Stats()
	sess, err := st.Sessions.Create(t.Context(), alice, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Sessions.Append(t.Context(), sess, &session.Event{Author: session.UserAuthor}); err != nil {
		t.Fatal(err)
	}
	got := st.Stats()
	if w, n := got.Writes-before.Writes, got.Transactions-before.Transactions; w != 2 || n != 2 {
		t.Errorf("a session and an event are %d writes in %d transactions, want 2 in 2", w, n)
	}
}

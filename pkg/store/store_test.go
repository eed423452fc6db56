package store_test

import (
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/store"
)

// TestStats: sessions are cached from their creation; waiting runs are counted, and
// their waiting time is recorded when they stop waiting.
func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := openStore(t, nil)
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
		if got := st.Stats().Queue; got != (store.Waits{Now: 1}) {
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
		diff(t, "Stats()", store.Stats{CacheHits: 3, CacheMisses: 1, CacheSessions: 1, Queue: store.Waits{Ended: 1, Took: time.Second}}, got)
	})
}

package store_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// waitUntilIdle waits until no session is held or waited for.
func waitUntilIdle(t *testing.T, s *store.Sessions) {
	t.Helper()
	if n := store.QueuedSessions(s); n != 0 {
		t.Errorf("%d sessions are still held", n)
	}
}

func TestAcquireOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, nil).Sessions
		release := acquire(t, s, alice)
		var order []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				next := acquire(t, s, alice)
				order = append(order, i)
				time.Sleep(time.Second)
				next()
			})
			synctest.Wait()
		}
		release()
		release()
		wg.Wait()
		diff(t, "order", []int{0, 1, 2, 3, 4}, order)
		waitUntilIdle(t, s)
	})
}

func TestAcquireOtherSessions(t *testing.T) {
	s := openStore(t, nil).Sessions
	acquire(t, s, alice)()
	acquire(t, s, alice)()
	a, b := acquire(t, s, alice), acquire(t, s, session.Key{App: "app", User: "bob", ID: "s"})
	a()
	b()
	waitUntilIdle(t, s)
}

func TestAcquireTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, nil).Sessions
		release := acquire(t, s, alice)
		for _, wait := range []time.Duration{-1, 0, 30 * time.Second} {
			start := time.Now()
			_, _, err := s.Acquire(t.Context(), alice, wait)
			wantErr(t, "Acquire of a held session", err, session.ErrBusy, "session s: busy with another run")
			if d := time.Since(start); d != max(wait, 0) {
				t.Errorf("waited %v, want %v", d, wait)
			}
		}
		release()
		acquire(t, s, alice)()
		waitUntilIdle(t, s)
	})
}

func TestAcquireCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t, nil).Sessions
		release := acquire(t, s, alice)
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, _, err := s.Acquire(ctx, alice, time.Hour)
			failed <- err
		}()
		synctest.Wait()
		var later func()
		got := make(chan struct{})
		go func() {
			later = acquire(t, s, alice)
			close(got)
		}()
		synctest.Wait()
		cancel()
		wantErr(t, "cancelled Acquire", <-failed, context.Canceled, "")
		release()
		<-got
		later()
		waitUntilIdle(t, s)
	})
}

// When the turn comes in the moment in which the wait ends, it is passed on.
func TestAcquireTurnDuringTimeout(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			s := openStore(t, nil).Sessions
			release := acquire(t, s, alice)
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					if _, next, err := s.Acquire(t.Context(), alice, time.Second); err == nil {
						next()
					}
				})
			}
			time.Sleep(time.Second)
			release()
			wg.Wait()
			waitUntilIdle(t, s)
		})
	}
}

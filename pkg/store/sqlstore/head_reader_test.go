package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Requests during a read are batched into the next one, and each caller gets its own session's
// head, or its read's error.
func TestHeadReadsBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int
		gate, broken := make(chan struct{}), errors.New("broken")
		h := &headReader{maxReads: 2, breaker: &breaker{}, read: func(_ context.Context, keys []session.Key) ([]*store.Snapshot, error) {
			mu.Lock()
			sizes = append(sizes, len(keys))
			n := len(sizes)
			mu.Unlock()
			<-gate
			if n == 4 {
				return nil, broken
			}
			snaps := make([]*store.Snapshot, len(keys))
			for i, k := range keys {
				snaps[i] = &store.Snapshot{Head: store.Head{Version: int64(len(k.ID))}}
			}
			return snaps, nil
		}}
		failed := 0
		var askers sync.WaitGroup
		ask := func(n int) {
			askers.Go(func() {
				snap, err := h.readHead(t.Context(), session.Key{ID: fmt.Sprintf("%0*d", n, 0)})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed++
				} else if snap.Version != int64(n) {
					t.Errorf("asker %d got the head of session %d", n, snap.Version)
				}
			})
			synctest.Wait()
		}
		for n := 1; n <= 12; n++ {
			ask(n)
		}
		gate <- struct{}{} // the first one, whose place is taken by the ten that wait
		synctest.Wait()
		close(gate)
		askers.Wait()
		ask(13)
		synctest.Wait()
		if got, want := fmt.Sprint(sizes), "[1 1 10 1]"; got != want || failed != 1 {
			t.Errorf("readings had %s sessions, want %s; %d failed, want 1", got, want, failed)
		}
		if h.busy != 0 || len(h.queue) != 0 {
			t.Errorf("%d readings are under way and %d wait at the end", h.busy, len(h.queue))
		}
	})
}

// Canceling one caller does not affect the others; a read without callers is
// canceled.
func TestHeadReadCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, ended := make(chan struct{}), 0
		h := &headReader{maxReads: 1, breaker: &breaker{}, read: func(ctx context.Context, keys []session.Key) ([]*store.Snapshot, error) {
			select {
			case <-gate:
				return make([]*store.Snapshot, len(keys)), nil
			case <-ctx.Done():
				ended++
				return nil, ctx.Err()
			}
		}}
		var askers sync.WaitGroup
		ask := func() (giveUp context.CancelFunc, failed *error) {
			ctx, cancel := context.WithCancel(t.Context())
			failed = new(error)
			askers.Go(func() { _, *failed = h.readHead(ctx, session.Key{}) })
			synctest.Wait()
			return cancel, failed
		}
		alone, failedAlone := ask()
		inLine, failedInLine := ask()
		_, stays := ask()
		inLine()
		synctest.Wait()
		alone() // its reading ends, and the one who stays has the next
		synctest.Wait()
		if ended != 1 || !errors.Is(*failedAlone, context.Canceled) || !errors.Is(*failedInLine, context.Canceled) {
			t.Errorf("%d readings ended early, with %v and %v, want one and that they were given up", ended, *failedAlone, *failedInLine)
		}
		close(gate)
		synctest.Wait()
		if *stays != nil || h.busy != 0 || len(h.queue) != 0 {
			t.Errorf("who stayed has %v; %d readings are under way and %d wait", *stays, h.busy, len(h.queue))
		}
	})
}

// Many sessions that are read at once are as each is alone: head, all scopes' state, and that one
// is missing.
func TestHeadBatchMatchesSingleReads(t *testing.T) {
	st := openStore(t, newDatabase(t, "postgres"), nil)
	var keys []session.Key
	for n := range 9 {
		key := session.Key{App: fmt.Sprintf("app-%d", n%2), User: fmt.Sprintf("user-%d", n%3), ID: fmt.Sprintf("s-%d", n)}
		keys = append(keys, key, session.Key{App: key.App, User: "absent", ID: key.ID})
		sess, err := st.Sessions.Create(t.Context(), key, map[string]any{"app:a": n, "user:u": n, "own": n})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if err := st.Sessions.Append(t.Context(), sess, &session.Event{Author: "a", InvocationID: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := st.db
	together, err := b.queryHeads(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		alone, err := b.queryHeads(t.Context(), keys[i:i+1])
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprint(*together[i]), fmt.Sprint(*alone[0]); got != want {
			t.Errorf("%v is %s, alone %s", key, got, want)
		}
	}
}

// When the breaker opens, the requests fail that wait for a batch. One in a batch waits for it.
func TestHeadWaitEndsWhenBreakerOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, gate := &breaker{opened: make(chan struct{})}, make(chan struct{})
		h := &headReader{maxReads: 1, breaker: k, read: func(_ context.Context, keys []session.Key) ([]*store.Snapshot, error) {
			<-gate
			return make([]*store.Snapshot, len(keys)), nil
		}}
		read := func() <-chan error {
			done := make(chan error, 1)
			go func() { _, err := h.readHead(t.Context(), alice); done <- err }()
			synctest.Wait()
			return done
		}
		sent, waiting := read(), read()
		close(k.opened)
		wantErr(t, "a request that waits", <-waiting, session.ErrUnavailable, "session store: database does not answer")
		synctest.Wait()
		if len(sent) > 0 || len(h.queue) > 0 {
			t.Errorf("%d requests in a batch ended, %d are queued", len(sent), len(h.queue))
		}
		close(gate)
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

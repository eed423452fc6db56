package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"agenthost/internal/limit"
	"agenthost/pkg/session"
)

// Acquire waits until the caller is the only run of the session among all stores that share it. It
// fails with ErrBusy after the given time. Within this store, callers are served in order. The
// session need not exist. The caller must call release; further calls do nothing.
//
// Another store can take over the session if this store does not renew its lease within
// Options.Lease. The run's Append then fails with ErrFenced, and the run's context, which derives
// from ctx, is canceled as soon as this store notices, with the cause ErrFenced, or ErrNotFound if
// the session was deleted.
func (s *Sessions) Acquire(ctx context.Context, key session.Key, wait time.Duration) (run context.Context, release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	// First the turn in this store: a run that waits here needs no lease yet.
	if turn := s.runs.acquireOrEnqueue(key); turn != nil {
		began := time.Now()
		if err := s.runs.waitTurn(ctx, key, turn, wait); err != nil {
			return nil, nil, err
		}
		wait -= time.Since(began)
	}
	// Then the turn among all stores, in the time that is left.
	r := &sessionRun{sessions: s, key: key, began: time.Now()}
	r.Init(ctx, time.Time{})
	if err := s.leases.acquireLease(ctx, key, wait, &r.LazyContext); err != nil {
		s.runs.releaseSession(key)
		return nil, nil, err
	}
	s.active.addRun(r)
	return r, r.releaseOnce, nil
}

// A sessionRun is the run that has a session, and its context, which ends with the run or when
// the store has lost the session. Both are one allocation.
type sessionRun struct {
	limit.LazyContext
	sessions *Sessions
	key      session.Key
	began    time.Time
	once     sync.Once
}

// Value implements [context.Context]. A run has no shared timeout, because it may be long.
func (r *sessionRun) Value(key any) any {
	if key == (sharedTimeoutKey{}) {
		return nil
	}
	return r.LazyContext.Value(key)
}

// releaseOnce ends the run's context and passes the session to the next run, which finds the
// lease idle. Further calls do nothing.
func (r *sessionRun) releaseOnce() {
	r.once.Do(func() {
		r.sessions.active.removeRun(r)
		r.sessions.leases.markIdle(r.key)
		r.Cancel(nil)
		r.sessions.runs.releaseSession(r.key)
	})
}

// RunLease returns the lease if a session has a run in this store, for programs that write to the
// backend themselves.
func (s *Sessions) RunLease(ctx context.Context, key session.Key) (LeaseGrant, error) {
	epoch, err := s.leases.resolveEpoch(ctx, key)
	g := s.leases.newGrant(key)
	g.Epoch = epoch
	return *g, err
}

// A runQueue serializes each session's runs in FIFO order. A session without a run has no entry.
type runQueue struct {
	mu      sync.Mutex
	waiting map[session.Key][]chan struct{}

	waits meter
}

func newRunQueue() *runQueue { return &runQueue{waiting: map[session.Key][]chan struct{}{}} }

// acquireOrEnqueue acquires a free session and returns nil, or joins its queue
// and returns a channel that is closed when it is the caller's turn.
func (r *runQueue) acquireOrEnqueue(key session.Key) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting, held := r.waiting[key]
	if !held {
		r.waiting[key] = nil
		return nil
	}
	turn := make(chan struct{})
	r.waiting[key] = append(waiting, turn)
	return turn
}

// isHeld reports whether a run in this store has the session.
func (r *runQueue) isHeld(key session.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, held := r.waiting[key]
	return held
}

func (r *runQueue) waitTurn(ctx context.Context, key session.Key, turn chan struct{}, most time.Duration) error {
	defer r.waits.startWait()()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-turn:
		return nil
	case <-timer.C:
		return r.leaveQueue(key, turn, fmt.Errorf("session %s: %w", key.ID, session.ErrBusy))
	case <-ctx.Done():
		return r.leaveQueue(key, turn, ctx.Err())
	}
}

// leaveQueue removes a caller from the queue. If its turn came at the same
// time, it passes the turn on.
func (r *runQueue) leaveQueue(key session.Key, turn chan struct{}, why error) error {
	r.mu.Lock()
	i := slices.Index(r.waiting[key], turn)
	if i >= 0 {
		r.waiting[key] = slices.Delete(r.waiting[key], i, i+1)
	}
	r.mu.Unlock()
	if i < 0 {
		r.releaseSession(key)
	}
	return why
}

// releaseSession gives the session to the next caller in the queue.
func (r *runQueue) releaseSession(key session.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := r.waiting[key]
	if len(waiting) == 0 {
		delete(r.waiting, key)
		return
	}
	r.waiting[key] = waiting[1:]
	close(waiting[0])
}

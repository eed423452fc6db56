package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/session"
)

// runQueue is the queue before each session that is in use: first come, first
// served. A session that nobody uses has no entry.
type runQueue struct {
	mu      sync.Mutex
	waiting map[session.Key][]chan struct{}

	waits meter
}

func newRunQueue() *runQueue { return &runQueue{waiting: map[session.Key][]chan struct{}{}} }

// Acquire waits until the caller is the only run of the session, among all
// stores that share it, and at most for the given time: then it is ErrBusy.
// Within this store the order is that of the calls. The session need not exist.
// Whoever gets it calls release, once or more.
//
// Others get the session also when this store is not heard of for the time of
// Options.Lease. Then an Append of the run is ErrFenced; and the context of the
// run, which is made of ctx, ends as soon as this store hears of it, with
// ErrFenced as its cause, or ErrNotFound when the session was deleted.
func (s *Sessions) Acquire(ctx context.Context, key session.Key, wait time.Duration) (run context.Context, release func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if turn := s.runs.acquireOrEnqueue(key); turn != nil {
		began := time.Now()
		if err := s.runs.waitTurn(ctx, key, turn, wait); err != nil {
			return nil, nil, err
		}
		wait -= time.Since(began)
	}
	if err := s.leases.acquireLease(ctx, key, wait); err != nil {
		s.runs.releaseSession(key)
		return nil, nil, err
	}
	run, end := context.WithCancelCause(ctx)
	s.leases.setCancel(key, end)
	return run, sync.OnceFunc(func() {
		s.leases.markIdle(key)
		end(nil)
		s.runs.releaseSession(key)
	}), nil
}

// acquireOrEnqueue takes a free session and returns nil, or the end of its queue and
// returns the channel that is closed when the turn comes.
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

// leaveQueue leaves the queue. Whose turn has come in this moment passes it on.
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

// releaseSession gives the session to the next in the queue.
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

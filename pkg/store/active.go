package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

// activeRuns are the runs that have a session in this store, for operators.
type activeRuns struct {
	mu   sync.Mutex
	runs map[session.Key]*sessionRun
}

func (a *activeRuns) addRun(r *sessionRun) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs == nil {
		a.runs = map[session.Key]*sessionRun{}
	}
	a.runs[r.key] = r
}

func (a *activeRuns) removeRun(r *sessionRun) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runs[r.key] == r {
		delete(a.runs, r.key)
	}
}

// An ActiveRun is a run that has a session in this store.
type ActiveRun struct {
	Key session.Key
	// Began is when it acquired the session.
	Began time.Time
}

// ActiveRuns lists the runs that have a session in this store, the oldest first and at most limit, and
// counts all.
func (s *Sessions) ActiveRuns(limit int) (runs []ActiveRun, total int) {
	s.active.mu.Lock()
	for _, r := range s.active.runs {
		runs = append(runs, ActiveRun{r.key, r.began})
	}
	s.active.mu.Unlock()
	total = len(runs)
	slices.SortFunc(runs, func(a, b ActiveRun) int { return a.Began.Compare(b.Began) })
	return runs[:min(len(runs), limit)], total
}

// IsRunning reports whether a run has a session, or waits for it, in this store or in another one that
// shares the sessions. It reads one lease, and acquires none: a lease would delay the next run elsewhere.
// A run in another store counts until its idle lease ends, at most 0.2 s after the run.
func (s *Sessions) IsRunning(ctx context.Context, key session.Key) (bool, error) {
	if s.runs.isHeld(key) {
		return true, nil
	}
	if s.leases.unshared || codec.CheckSession(key) != nil { // no session has an invalid key
		return false, nil
	}
	owner, err := s.backend.ReadLease(ctx, key, s.clock())
	if errors.Is(err, session.ErrNotFound) {
		return false, nil
	}
	return owner != "" && owner != s.Owner(), err
}

// ErrStopped is the cause of a run's context after [Sessions.CancelRun].
var ErrStopped = errors.New("the run was stopped")

// CancelRun cancels the context of the run that has a session in this store, and reports whether there
// is one.
func (s *Sessions) CancelRun(key session.Key) bool {
	s.active.mu.Lock()
	r := s.active.runs[key]
	s.active.mu.Unlock()
	if r == nil {
		return false
	}
	r.Cancel(ErrStopped)
	return true
}

// Owner returns the name of this store in session leases.
func (s *Sessions) Owner() string { return s.leases.owner }

// IsShared reports whether other stores may run the sessions.
func (s *Sessions) IsShared() bool { return !s.leases.unshared }

// ErrNoLeases is the error of [Sessions.HeldLeases] if the sessions are this store's only, or their
// backend does not list leases.
var ErrNoLeases = errors.New("session leases are not listed")

// A LeaseLister is a session backend that lists leases.
type LeaseLister interface {
	// ListLeases returns the leases that have not expired.
	ListLeases(ctx context.Context, q LeaseQuery) ([]HeldLease, error)
}

// A LeaseQuery selects leases.
type LeaseQuery struct {
	// Sessions is how many sessions are examined, the latest created ones. Limit is how many leases are
	// returned.
	Sessions, Limit int
	// Now is the current time for a backend without its own clock.
	Now time.Time
}

// A HeldLease is a session that a store runs, or ran a moment ago.
type HeldLease struct {
	Key   session.Key
	Owner string
}

// HeldLeases lists the leases of all stores that share the sessions.
func (s *Sessions) HeldLeases(ctx context.Context, sessions, limit int) ([]HeldLease, error) {
	lister, ok := s.backend.(LeaseLister)
	if !ok || s.leases.unshared {
		return nil, ErrNoLeases
	}
	return lister.ListLeases(ctx, LeaseQuery{Sessions: sessions, Limit: limit, Now: s.clock()})
}

// takeOverAttempts is how often TakeOver releases a lease that its owner renews at the same moment.
const takeOverAttempts = 5

// TakeOver takes a session over from another store, and releases it. The run there can store no further
// event, and is canceled when its store renews its leases, within a third of the lease's term. It
// returns the store's name. The error is ErrNotFound if no other store has the session.
//
// It needs no column and no message: the other store's lease is ended as an expired one, and its epoch
// is fenced by a grant of an owner that no store has, so that it fences no run here.
func (s *Sessions) TakeOver(ctx context.Context, key session.Key) (owner string, err error) {
	l := s.leases
	if l.unshared {
		return "", session.ErrNotFound
	}
	// No run here may begin meanwhile: its lease would be fenced.
	if turn := s.runs.acquireOrEnqueue(key); turn != nil {
		return "", s.runs.leaveQueue(key, turn, session.ErrNotFound)
	}
	defer s.runs.releaseSession(key)
	if l.isTracked(key) {
		return "", session.ErrNotFound
	}
	fencer := NewOwner()
	for range takeOverAttempts {
		g := l.newGrant(key)
		g.Owner = fencer
		holder, err := l.backend.AcquireLease(ctx, g)
		if err != nil {
			return "", err
		}
		if holder == l.owner {
			return "", session.ErrNotFound // a run here, or its idle lease
		}
		if err := l.backend.ReleaseLeases(ctx, []*LeaseGrant{g}); err != nil {
			return "", err
		}
		switch {
		case holder != "":
			owner = holder // its lease has ended; the next attempt fences it
		case owner == "":
			return "", session.ErrNotFound
		default:
			return owner, nil
		}
	}
	return "", fmt.Errorf("session %s: %w, of %s", key.ID, session.ErrBusy, owner)
}

// isTracked reports whether this store has a session's lease, which may be idle.
func (l *leaseManager) isTracked(key session.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[key] != nil
}

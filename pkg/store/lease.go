package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

const (
	defaultLease = 15 * time.Second
	// idleLeaseDuration is how long an idle lease is kept. The next turn of the
	// session reuses it for free, and other replicas wait only slightly longer.
	idleLeaseDuration = 100 * time.Millisecond
	// The pauses between attempts to lease a session that another store holds.
	minLeasePause, maxLeasePause = 5 * time.Millisecond, 100 * time.Millisecond
)

// A grant is a lease as a backend stores it. Only its owner may run the
// session. Its epoch (fencing token) is greater than that of every earlier
// grant; an append that names an older epoch is rejected.
type grant struct {
	key       session.Key
	id, epoch int64 // id of the session's head, epoch of the grant
	owner     string
	term      time.Duration
	// now is the current time for a backend without its own clock.
	now time.Time
}

// A leaseBackend stores session leases. All stores that share the sessions see
// the same clock.
type leaseBackend interface {
	// acquireLease leases the session to the owner of the grant and sets the
	// grant's id and epoch, if the lease is free, expired, or already the
	// owner's. Otherwise nothing changes and it returns the holder. A missing
	// session is ErrNotFound. An id and an epoch in the grant are the last
	// known ones, which may save a read.
	acquireLease(ctx context.Context, g *grant) (holder string, err error)
	// renewLeases extends the grants by their term, and returns those that are
	// lost: taken over, or deleted with their session.
	renewLeases(ctx context.Context, all []*grant) (gone []*grant, err error)
	// releaseLeases ends grants. It ignores those that are lost.
	releaseLeases(ctx context.Context, all []*grant) error
}

// A leaseManager holds the leases of the sessions that run in this store or ran
// a moment ago. A goroutine renews them as long as there are any.
type leaseManager struct {
	backend  backend
	cache    *cache
	clock    func() time.Time
	logger   *slog.Logger
	owner    string
	term     time.Duration
	unshared bool // no other store shares the sessions

	mu          sync.Mutex
	held        map[session.Key]*lease
	stopRenewal chan struct{} // stops the renewal goroutine; nil if there is none
	closed      bool
	renewer     sync.WaitGroup

	waits meter
}

// A lease is a held grant. With the id 0 it is pending: the session did not
// exist when the run acquired it.
type lease struct {
	grant
	idle     bool // no run uses it
	expiring bool // was idle in the last renewal round
	lost     bool // another store took it over
	// cancel cancels the run that uses the lease, with a cause.
	cancel context.CancelCauseFunc
}

func newLeaseManager(b backend, c *cache, o *Options) *leaseManager {
	_, alone := b.(*memBackend)
	return &leaseManager{
		unshared: alone, backend: b, cache: c, clock: o.Clock, logger: o.Logger, term: o.Lease, owner: o.owner,
		held: map[session.Key]*lease{},
	}
}

// ownerName returns a unique name of this store that shows people its host and
// process.
func ownerName() string {
	host, err := os.Hostname()
	if err != nil || len(host) > 64 {
		host = "host"
	}
	id := uuid.New()
	return fmt.Sprintf("%s/%d/%x", host, os.Getpid(), id[:ownerHexDigits/2])
}

// acquireLease leases a session for a run of this store. It waits while another
// store holds the lease. The caller is the only run of the session in this
// store.
func (l *leaseManager) acquireLease(ctx context.Context, key session.Key, most time.Duration) error {
	if l.unshared || l.reuseIdle(key) {
		return nil
	}
	holder, err := l.tryAcquire(ctx, key)
	if err != nil || holder == "" {
		return err
	}
	defer l.waits.startWait()()
	end := time.NewTimer(most)
	defer end.Stop()
	for pause := minLeasePause; ; pause = min(2*pause, maxLeasePause) {
		busy := fmt.Errorf("session %s: %w, of %s", key.ID, session.ErrBusy, holder)
		if most <= 0 {
			return busy
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-end.C:
			again.Stop()
			return busy
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
		if holder, err = l.tryAcquire(ctx, key); err != nil || holder == "" {
			return err
		}
	}
}

// tryAcquire makes one attempt. If the session does not exist, the lease is
// pending: it is created with the session, or with its first event.
func (l *leaseManager) tryAcquire(ctx context.Context, key session.Key) (holder string, err error) {
	g := l.newGrant(key)
	if e := l.cache.get(key); e != nil {
		g.id, g.epoch = e.lastLease()
	}
	if checkSession(key) == nil {
		holder, err = l.backend.acquireLease(ctx, g)
	}
	if errors.Is(err, session.ErrNotFound) {
		g.id, g.epoch, err = 0, 0, nil
	}
	if err == nil && holder == "" {
		err = l.trackLease(g)
	}
	return holder, err
}

func (l *leaseManager) newGrant(key session.Key) *grant {
	return &grant{key: key, owner: l.owner, term: l.term, now: l.clock()}
}

// reuseIdle reuses the lease of the previous run if it certainly has not
// expired.
func (l *leaseManager) reuseIdle(key session.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.held[key]
	if e == nil || !e.idle {
		return false
	}
	if age := l.clock().Sub(e.now); age < 0 || age >= l.term/2 {
		return false
	}
	e.idle, e.expiring = false, false
	return true
}

func (l *leaseManager) trackLease(g *grant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return errClosed
	}
	e := &lease{grant: *g}
	if wish := l.held[g.key]; wish != nil {
		e.cancel = wish.cancel // the run of the pending lease continues
	}
	l.held[g.key] = e
	if l.stopRenewal == nil {
		quit := make(chan struct{})
		l.stopRenewal = quit
		l.renewer.Go(func() {
			defer safe.Recover(l.logPanic)
			l.renewPeriodically(quit)
		})
	}
	return nil
}

// setCancel registers the cancel function of the session's run.
func (l *leaseManager) setCancel(key session.Key, end context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e != nil {
		e.cancel = end
	}
}

// markIdle records that the run of a session has ended.
func (l *leaseManager) markIdle(key session.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.held[key]
	switch {
	case e == nil:
	case e.id == 0 || e.lost:
		delete(l.held, key)
	default:
		e.idle, e.cancel = true, nil
	}
}

// markLost records that another store has taken over a session.
func (l *leaseManager) markLost(key session.Key, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e != nil && e.epoch == epoch {
		e.cancelRun(errFenced(key.ID))
	}
}

// cancelRun cancels the run of a lost lease.
func (e *lease) cancelRun(why error) {
	e.lost = true
	if e.cancel != nil {
		e.cancel(why)
	}
}

// dropDeleted drops the lease of a deleted session, at the latest when its run
// ends. A new session with the same key gets its own lease.
func (l *leaseManager) dropDeleted(key session.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e := l.held[key]; {
	case e == nil:
	case e.idle:
		delete(l.held, key)
	default:
		e.cancelRun(errNotFound(key.ID))
	}
}

// pendingGrant returns the grant to create together with the session, or nil if
// no run in this store waits for it.
func (l *leaseManager) pendingGrant(key session.Key) *grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e == nil || e.id != 0 {
		return nil
	}
	return l.newGrant(key)
}

// resolveEpoch returns the epoch that an append to the session must name, or 0
// if the session does not run in this store. If another store created the
// session after the run began, it acquires the lease now: the append then
// checks the version.
func (l *leaseManager) resolveEpoch(ctx context.Context, key session.Key) (int64, error) {
	if l.unshared {
		return 0, nil
	}
	l.mu.Lock()
	e := l.held[key]
	wished := e != nil && e.id == 0
	var epoch int64
	if e != nil {
		epoch = e.epoch
	}
	l.mu.Unlock()
	if !wished {
		return epoch, nil
	}
	if err := l.acquireLease(ctx, key, 0); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e = l.held[key]; e == nil {
		return 0, nil
	}
	return e.epoch, nil
}

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
	// idleLeaseDuration is how long a lease that nobody uses is kept: a turn that follows
	// soon pays nothing for it, and other hosts hardly wait longer.
	idleLeaseDuration = 100 * time.Millisecond
	// The pauses between two looks at a session that another host holds.
	minLeasePause, maxLeasePause = 5 * time.Millisecond, 100 * time.Millisecond
)

// A grant is a lease as a backend keeps it. Who holds it is the only one to
// run the session. Its epoch is greater than that of every grant before it, and
// an append that names an older one is refused.
type grant struct {
	key       session.Key
	id, epoch int64 // of the session's head, and of the grant
	owner     string
	term      time.Duration
	// now is the time by which a backend without a clock of its own judges.
	now time.Time
}

// A leaser keeps the leases of sessions. The clock that it judges by is the
// same for all who share the sessions.
type leaseBackend interface {
	// acquireLease gives the grant's session to its owner and sets the grant's id and
	// epoch, when it is free, run out, or the owner's already. Else nothing
	// changes, and it returns who holds the session. A missing session is
	// ErrNotFound. An id and epoch in the grant are those that the caller saw
	// last, which may spare a look.
	acquireLease(ctx context.Context, g *grant) (holder string, err error)
	// renewLeases makes grants begin their term anew, and returns those that are
	// gone: taken over, or with their session.
	renewLeases(ctx context.Context, all []*grant) (gone []*grant, err error)
	// releaseLeases ends grants. Those that are gone are left as they are.
	releaseLeases(ctx context.Context, all []*grant) error
}

// leaseManager are what this store holds of sessions that it shares with others, one
// for each session that is run here or was a moment ago. They have a goroutine
// as long as there are any.
type leaseManager struct {
	backend  backend
	cache    *cache
	clock    func() time.Time
	logger   *slog.Logger
	owner    string
	term     time.Duration
	unshared bool // nobody else can have the sessions

	mu          sync.Mutex
	held        map[session.Key]*lease
	stopRenewal chan struct{} // of the keeper; nil without one
	closed      bool
	renewer     sync.WaitGroup

	waits meter
}

// A lease is a grant, or with the id 0 the wish for one: the session did not
// exist yet.
type lease struct {
	grant
	idle     bool // no run uses it
	expiring bool // idle at the keeper's last look
	lost     bool // somebody else took it over
	// cancel ends the run that uses it, and says why.
	cancel context.CancelCauseFunc
}

func newLeaseManager(b backend, c *cache, o *Options) *leaseManager {
	_, alone := b.(*memBackend)
	return &leaseManager{
		unshared: alone, backend: b, cache: c, clock: o.Clock, logger: o.Logger, term: o.Lease, owner: o.owner,
		held: map[session.Key]*lease{},
	}
}

// ownerName tells this store from every other, and people where it is.
func ownerName() string {
	host, err := os.Hostname()
	if err != nil || len(host) > 64 {
		host = "host"
	}
	id := uuid.New()
	return fmt.Sprintf("%s/%d/%x", host, os.Getpid(), id[:ownerHexDigits/2])
}

// acquireLease gets the session for a run of this store, and waits for it as long as
// another host holds it. The caller is the session's only run here.
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

// tryAcquire asks once. A session that does not exist is nobody's: the lease is made
// with it, or with its first event.
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

// reuseIdle takes the lease of the last run, when it is surely still ours.
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
		e.cancel = wish.cancel // the run goes on with what it wished for
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

// setCancel says how the run of a session is ended.
func (l *leaseManager) setCancel(key session.Key, end context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e != nil {
		e.cancel = end
	}
}

// markIdle says that the run of a session has ended.
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

// markLost says that somebody else has taken a session over.
func (l *leaseManager) markLost(key session.Key, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e != nil && e.epoch == epoch {
		e.cancelRun(errFenced(key.ID))
	}
}

// cancelRun ends the run.
func (e *lease) cancelRun(why error) {
	e.lost = true
	if e.cancel != nil {
		e.cancel(why)
	}
}

// dropDeleted drops the lease of a session that was deleted, at the latest when its
// run ends: a new session with its key has nothing to do with it.
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

// pendingGrant returns the grant to be made together with the session, or nil when no
// run here waits for it.
func (l *leaseManager) pendingGrant(key session.Key) *grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e == nil || e.id != 0 {
		return nil
	}
	return l.newGrant(key)
}

// resolveEpoch is what an append to the session has to name; 0 is that of a session
// that is not run here. A session that came to be behind the back of its run is
// taken now: the append finds out whether it is still as the run knows it.
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

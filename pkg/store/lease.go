package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"agenthost/internal/codec"
	"agenthost/internal/limit"
	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/store/backend"
)

const (
	defaultLease = 15 * time.Second
	// idleLeaseDuration is how long an idle lease is kept. The session's next turn reuses it for
	// free, and other replicas wait only slightly longer.
	idleLeaseDuration = 100 * time.Millisecond
	// The pauses between attempts to lease a session that another store holds.
	minLeasePause, maxLeasePause = 5 * time.Millisecond, 100 * time.Millisecond
)

// A lease lets one store run a session. It is three columns in the session's row: an owner, an
// expiry, and an epoch that each acquisition increases (the fencing token).
//
//	acquire   reuse the idle lease of the last run, or take a free or expired one: epoch+1.
//	          A session that does not exist has a pending lease, which Create makes real.
//	renew     every term/3, for all sessions of this store in one write
//	append    the event's statement compares its epoch with the row's
//	release   a run leaves its lease idle; the renewal goroutine ends idle leases in its second
//	          round, 0.1 to 0.2 s later
//
// Invariant (fencing): an event is stored only under the newest epoch. A replica that was frozen
// past its expiry cannot know that another one has taken over, so no clock or flag of its own may
// decide: its next append fails with ErrFenced in the database. Renewal merely finds out sooner,
// and cancels the model or tool call that the run waits for.
//
// Invariant (one run): a lease that is held and not idle belongs to the run that is first in the
// session's runQueue. A lease in use leaves held only when it is lost or pending and its run ends,
// and its run is set under the same lock as the lease itself: a lease lost at any moment cancels
// its run.
//
// Idle leases make the next turn of a conversation free: no statement before its first event. The
// price is that another replica waits up to 0.2 s longer. A lease is reused only within term/2
// since its last renewal by this store's clock, so that clocks which differ by less do no harm.
// A new lease for each turn would cost two more writes; a lease kept for its whole term would make
// replicas of one service wait for each other.

// A leaseManager holds the leases for sessions that run in this store or ran a moment ago. A
// goroutine renews them as long as there are any.
type leaseManager struct {
	backend  SessionBackend
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
	LeaseGrant
	idle     bool               // no run uses it
	expiring bool               // was idle in the last renewal round
	lost     bool               // another store took it over
	run      *limit.LazyContext // uses the lease; nil if idle
}

// OwnerDigits is how many hexadecimal digits follow the last slash in an owner name. They identify
// the store on its machine.
const OwnerDigits = 12

// NewOwner returns a unique owner name, which includes the host name and the process ID.
func NewOwner() string {
	host, err := os.Hostname()
	if err != nil || len(host) > 64 {
		host = "host"
	}
	id := uuid.New()
	return fmt.Sprintf("%s/%d/%x", host, os.Getpid(), id[:OwnerDigits/2])
}

// acquireLease acquires a session's lease for a run in this store. It waits while another store
// holds it. The caller is the session's only run in this store. A run whose lease is lost is
// canceled; nil keeps a pending lease's run.
func (l *leaseManager) acquireLease(ctx context.Context, key session.Key, most time.Duration, run *limit.LazyContext) error {
	if l.unshared || l.reuseIdle(key, run) {
		return nil
	}
	holder, err := l.tryAcquire(ctx, key, run)
	if err != nil || holder == "" {
		return err
	}
	defer l.waits.startWait()()
	expired := time.NewTimer(most)
	defer expired.Stop()
	for pause := minLeasePause; ; pause = min(2*pause, maxLeasePause) {
		busy := fmt.Errorf("session %s: %w, of %s", key.ID, session.ErrBusy, holder)
		if most <= 0 {
			return busy
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-expired.C:
			again.Stop()
			return busy
		case <-ctx.Done():
			again.Stop()
			return ctx.Err()
		}
		if holder, err = l.tryAcquire(ctx, key, run); err != nil || holder == "" {
			return err
		}
	}
}

// tryAcquire makes one attempt. If the session does not exist, the lease is
// pending: it is created with the session, or with its first event.
func (l *leaseManager) tryAcquire(ctx context.Context, key session.Key, run *limit.LazyContext) (holder string, err error) {
	g := l.newGrant(key)
	g.ID, g.Epoch = l.cache.lastLease(key)
	if codec.CheckSession(key) == nil { // no session has an invalid key
		holder, err = l.backend.AcquireLease(ctx, g)
	}
	if errors.Is(err, session.ErrNotFound) {
		g.ID, g.Epoch, err = 0, 0, nil
	}
	if err == nil && holder == "" {
		err = l.trackLease(g, run)
	}
	return holder, err
}

func (l *leaseManager) newGrant(key session.Key) *LeaseGrant {
	return &LeaseGrant{Key: key, Owner: l.owner, Term: l.term, Now: l.clock()}
}

// reuseIdle reuses the previous run's lease if it certainly has not expired.
func (l *leaseManager) reuseIdle(key session.Key, run *limit.LazyContext) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.held[key]
	if e == nil || !e.idle {
		return false
	}
	if age := l.clock().Sub(e.Now); age < 0 || age >= l.term/2 {
		return false
	}
	e.idle, e.expiring, e.run = false, false, run
	return true
}

// trackLease holds a lease, which the renewal goroutine renews until its run has ended. Nil keeps
// the pending lease's run, which continues.
func (l *leaseManager) trackLease(g *LeaseGrant, run *limit.LazyContext) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	if pending := l.held[g.Key]; pending != nil && run == nil {
		run = pending.run
	}
	l.held[g.Key] = &lease{LeaseGrant: *g, run: run}
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

// markIdle records that a session's run has ended.
func (l *leaseManager) markIdle(key session.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.held[key]
	switch {
	case e == nil:
	case e.ID == 0 || e.lost:
		delete(l.held, key)
	default:
		e.idle, e.run = true, nil
	}
}

// markLost records that another store has taken over a session.
func (l *leaseManager) markLost(key session.Key, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e != nil && e.Epoch == epoch {
		e.cancelRun(backend.SessionFenced(key.ID))
	}
}

// cancelRun cancels the run that lost its lease.
func (e *lease) cancelRun(why error) {
	e.lost = true
	if e.run != nil {
		e.run.Cancel(why)
	}
}

// dropDeleted drops a deleted session's lease, at the latest when its run ends. A new session with
// the same key gets its own lease.
func (l *leaseManager) dropDeleted(key session.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e := l.held[key]; {
	case e == nil:
	case e.idle:
		delete(l.held, key)
	default:
		e.cancelRun(backend.SessionNotFound(key.ID))
	}
}

// pendingGrant returns the grant to create together with the session, or nil if
// no run in this store waits for it.
func (l *leaseManager) pendingGrant(key session.Key) *LeaseGrant {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[key]; e == nil || e.ID != 0 {
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
	isPending := e != nil && e.ID == 0
	var epoch int64
	if e != nil {
		epoch = e.Epoch
	}
	l.mu.Unlock()
	if !isPending {
		return epoch, nil
	}
	if err := l.acquireLease(ctx, key, 0, nil); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e = l.held[key]; e == nil {
		return 0, nil
	}
	return e.Epoch, nil
}

// renewPeriodically renews leases until none is held.
func (l *leaseManager) renewPeriodically(quit chan struct{}) {
	round := time.NewTicker(idleLeaseDuration)
	defer round.Stop()
	for {
		select {
		case <-quit:
			return
		case <-round.C:
		}
		more := true
		if p := safe.Call(func() { more = l.renewOnce() }); p != nil {
			l.logPanic(p) // the next round tries again
		}
		if !more {
			return
		}
	}
}

// renewOnce releases idle leases and renews the others. It returns false if no
// lease is held.
func (l *leaseManager) renewOnce() (more bool) {
	ended, due, more := l.collectDue()
	if len(ended) > 0 {
		if err := l.backend.ReleaseLeases(context.Background(), ended); err != nil {
			l.logger.Warn("releasing session leases failed; they expire after their term", "sessions", len(ended), "error", err)
		}
	}
	if len(due) > 0 {
		l.renewDue(due)
	}
	return more
}

func (l *leaseManager) logPanic(p *safe.Panic) {
	p.Log(l.logger, "renewing of session leases panicked")
}

// collectDue removes the leases that were idle for a full round, and copies the leases of runs for
// which a third of the term has passed.
func (l *leaseManager) collectDue() (ended, due []*LeaseGrant, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		l.stopRenewal = nil
		return nil, nil, false
	}
	var now time.Time
	for key, e := range l.held {
		switch {
		case e.expiring:
			ended = append(ended, &e.LeaseGrant)
			delete(l.held, key)
		case e.idle:
			e.expiring = true
		case e.ID != 0 && !e.lost:
			if now.IsZero() {
				now = l.clock()
			}
			if now.Sub(e.Now) >= l.term/3 {
				g := e.LeaseGrant
				g.Now = now
				due = append(due, &g)
			}
		}
	}
	return ended, due, true
}

// renewDue renews leases, and cancels the runs whose lease is lost: fenced by another store, or
// deleted with the session. A failed renewal cancels nothing, since the term may outlast it.
func (l *leaseManager) renewDue(due []*LeaseGrant) {
	gone, err := l.backend.RenewLeases(context.Background(), due)
	if err != nil {
		l.logger.Warn("renewing session leases failed", "sessions", len(due), "error", err)
		return
	}
	why := map[*LeaseGrant]error{}
	for _, g := range gone {
		why[g] = backend.SessionFenced(g.Key.ID)
		if _, err := l.backend.ReadSession(context.Background(), g.Key, EventWindow{}); errors.Is(err, session.ErrNotFound) {
			why[g] = err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range due {
		e := l.held[g.Key]
		if e == nil || e.ID != g.ID || e.Epoch != g.Epoch {
			continue
		}
		e.Now = g.Now
		if err := why[g]; err != nil {
			l.logger.Warn("turn cancelled: session lease lost", "app", g.Key.App, "session", g.Key.ID, "error", err)
			e.cancelRun(err)
		}
	}
}

// close releases all leases. Runs that are still active can no longer store
// events.
func (l *leaseManager) close() error {
	l.mu.Lock()
	l.closed = true
	if l.stopRenewal != nil {
		close(l.stopRenewal)
		l.stopRenewal = nil
	}
	var all []*LeaseGrant
	for _, e := range l.held {
		if e.ID != 0 && !e.lost {
			all = append(all, &e.LeaseGrant)
		}
	}
	clear(l.held)
	l.mu.Unlock()
	l.renewer.Wait()
	if len(all) == 0 {
		return nil
	}
	if err := l.backend.ReleaseLeases(context.Background(), all); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// Waits counts one kind of wait.
type Waits struct {
	// Now counts the current waits. Ended counts finished waits, and Took is their total duration.
	Now, Ended int64
	Took       time.Duration
}

// A meter counts waits. It is safe for concurrent use.
type meter struct{ now, ended, took atomic.Int64 }

// startWait counts a wait until end is called.
func (m *meter) startWait() (end func()) {
	m.now.Add(1)
	began := time.Now()
	return func() {
		m.now.Add(-1)
		m.ended.Add(1)
		m.took.Add(int64(time.Since(began)))
	}
}

func (m *meter) readWaits() Waits {
	return Waits{Now: m.now.Load(), Ended: m.ended.Load(), Took: time.Duration(m.took.Load())}
}

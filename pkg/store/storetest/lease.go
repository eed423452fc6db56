package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// maxHandover is how long a store that waits for a session gets it after its release.
const maxHandover = 300 * time.Millisecond

// killStore makes a store renew and release nothing any more, like one whose process
// has stopped.
func killStore(s *testStore) { s.sessions.stopped.Store(true) }

// A leaseSuite tests session leases.
type leaseSuite struct{ *Suite }

func (su leaseSuite) listTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"LeaseExclusive":               su.testLeaseExclusive,
		"LeaseRead":                    su.testLeaseRead,
		"LeaseWait":                    su.testLeaseWait,
		"LeaseTakeover":                su.testLeaseTakeover,
		"LeaseExpiry":                  su.testLeaseExpiry,
		"LeaseTakenByOperator":         su.testLeaseTakenByOperator,
		"LeaseRepeatedEvent":           su.testLeaseRepeatedEvent,
		"LeaseCreatedWithSession":      su.testLeaseCreatedWithSession,
		"LeaseSessionCreatedElsewhere": su.testLeaseSessionCreatedElsewhere,
		"LeaseIdleReuse":               su.testLeaseIdleReuse,
		"LeaseDeletedSession":          su.testLeaseDeletedSession,
		"CloseReleasesLeases":          su.testCloseReleasesLeases,
		"LeaseRace":                    su.testLeaseRace,
		"AppendRaceWithoutLease":       su.testAppendRaceWithoutLease,
		"RunCancelledOnLeaseLoss":      su.testRunCancelledOnLeaseLoss,
	}
}

// Only one store on a database runs a session at a time, and the next one sees the stored events
// even if it has cached the session.
func (su leaseSuite) testLeaseExclusive(t *testing.T) {
	a, b := su.openPair(t)
	createSession(t, a, alice, nil)
	other := createSession(t, a, session.Key{App: "app", User: "alice", ID: "other"}, nil)
	getSession(t, b, alice, nil)
	release := acquire(t, a.Sessions, alice)
	_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire elsewhere", err, wantedError{session.ErrBusy, "session s: busy with another run, of " + a.owner})
	acquire(t, b.Sessions, other.Key)()

	appendEvent(t, a, getSession(t, a, alice, nil), textEvent("user", "hi"))
	release()
	release = acquire(t, b.Sessions, alice)
	defer release()
	sess := getSession(t, b, alice, nil)
	if sess.Version != 1 {
		t.Errorf("the next run is at version %d, want 1", sess.Version)
	}
	appendEvent(t, b, sess, textEvent("user", "hi"))
	_, _, err = a.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire of the first", err, wantedError{session.ErrBusy, "of " + b.owner})
}

// Each store reports the run of another one, and not for longer than its idle lease. It need not be among
// the newest sessions, and reading takes no lease.
func (su leaseSuite) testLeaseRead(t *testing.T) {
	a, b := su.openPair(t)
	createSession(t, a, alice, nil)
	runConcurrently(t, 16, func(i int) error {
		for n := range 64 {
			if _, err := a.Sessions.Create(t.Context(), session.Key{App: "app", User: "bob", ID: fmt.Sprint(i, "-", n)}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	isRunning := func(s *testStore) bool {
		running, err := s.Sessions.IsRunning(t.Context(), alice)
		if err != nil {
			t.Fatal(err)
		}
		return running
	}
	if isRunning(a) || isRunning(b) {
		t.Error("a session without a run is running")
	}
	release := acquire(t, a.Sessions, alice)
	if !isRunning(a) || !isRunning(b) {
		t.Errorf("a run of the first store: running %v there, %v at the second", isRunning(a), isRunning(b))
	}
	if n := b.sessions.countGrants(); n != 0 {
		t.Errorf("the second store has acquired %d leases", n)
	}
	release()
	if isRunning(a) {
		t.Error("the session is running in its store after the run")
	}
	for start := time.Now(); isRunning(b); {
		if time.Since(start) > 10*time.Second {
			t.Fatal("the session is still running in the other store")
		}
	}
	defer acquire(t, b.Sessions, alice)()
	if !isRunning(a) || !isRunning(b) {
		t.Errorf("a run of the second store: running %v at the first, %v there", isRunning(a), isRunning(b))
	}
	owner, err := a.sessions.ReadLease(t.Context(), session.Key{App: "app", User: "alice", ID: "missing"}, time.Now())
	wantErr(t, "ReadLease of a missing session", err, wantedError{session.ErrNotFound, ""})
	if owner != "" {
		t.Errorf("a missing session has the owner %q", owner)
	}
}

// An operator finds and takes over the run of another store, which stores nothing more: what it has
// stored stays, and the session is free at once. Without a run there is nothing to take over.
func (su leaseSuite) testLeaseTakenByOperator(t *testing.T) {
	a, b := su.openPair(t)
	createSession(t, a, alice, nil)
	_, err := b.Sessions.TakeOver(t.Context(), alice)
	wantErr(t, "TakeOver without a run", err, wantedError{session.ErrNotFound, ""})
	_, err = b.Sessions.TakeOver(t.Context(), session.Key{App: "app", User: "alice", ID: "missing"})
	wantErr(t, "TakeOver of a missing session", err, wantedError{session.ErrNotFound, ""})

	defer acquire(t, a.Sessions, alice)()
	sess := getSession(t, a, alice, nil)
	appendEvent(t, a, sess, textEvent("user", "hi"))
	if lister, ok := a.sessions.SessionBackend.(store.LeaseLister); ok {
		held, err := lister.ListLeases(t.Context(), store.LeaseQuery{Sessions: 10, Limit: 10, Now: time.Now()})
		if want := (store.HeldLease{Key: alice, Owner: a.owner}); err != nil || len(held) != 1 || held[0] != want {
			t.Errorf("ListLeases = %+v, %v, want %+v", held, err, want)
		}
	}
	if _, err := a.Sessions.TakeOver(t.Context(), alice); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("TakeOver of the own run = %v, want not found", err)
	}
	if owner, err := b.Sessions.TakeOver(t.Context(), alice); err != nil || owner != a.owner {
		t.Fatalf("TakeOver = %q, %v, want %q", owner, err, a.owner)
	}
	if err := a.Sessions.Append(t.Context(), sess, textEvent("user", "late")); err == nil {
		t.Error("the run that was taken over stored an event")
	}
	defer acquire(t, b.Sessions, alice)()
	next := getSession(t, b, alice, nil)
	if next.Version != 1 {
		t.Errorf("the next run is at version %d, want 1", next.Version)
	}
	appendEvent(t, b, next, textEvent("user", "next"))
}

// A waiting store acquires the session soon after its release, and otherwise fails
// with a busy error.
func (su leaseSuite) testLeaseWait(t *testing.T) {
	su.runTimedPair(t, func(t *testing.T, a, b *testStore) {
		createSession(t, a, alice, nil)
		release := acquire(t, a.Sessions, alice)
		start := time.Now()
		_, _, err := b.Sessions.Acquire(t.Context(), alice, 40*time.Second)
		wantErr(t, "Acquire of a session that is long in use", err, wantedError{session.ErrBusy, ""})
		if d := time.Since(start); d != 40*time.Second {
			t.Errorf("waited %v, want 40s", d)
		}
		appendEvent(t, a, getSession(t, a, alice, nil), textEvent("user", "still mine"))
		go func() {
			time.Sleep(10 * time.Second)
			release()
		}()
		start = time.Now()
		acquire(t, b.Sessions, alice)()
		if d := time.Since(start); d < 10*time.Second || d > 10*time.Second+maxHandover {
			t.Errorf("got the session after %v, want about 10s", d)
		}
	})
}

// A store that stops renewing loses its sessions; its later writes are rejected and
// change nothing.
func (su leaseSuite) testLeaseTakeover(t *testing.T) {
	su.runTimedPair(t, func(t *testing.T, a, b *testStore) {
		sess := createSession(t, a, alice, map[string]any{"k": 1})
		release := acquire(t, a.Sessions, alice)
		appendEvent(t, a, sess, textEvent("user", "hi"))
		killStore(a)
		start := time.Now()
		next := acquire(t, b.Sessions, alice)
		if d := time.Since(start); d < 14*time.Second || d > 16*time.Second {
			t.Errorf("took over after %v, want about 15s", d)
		}
		theirs := getSession(t, b, alice, nil)

		before := plainState(t, sess)
		late := stateEvent(map[string]any{"k": 2, "user:k": 2, "app:k": 2})
		err := a.Sessions.Append(t.Context(), sess, late)
		wantErr(t, "late append", err, wantedError{session.ErrFenced, "session s was taken over by another host in the middle of this turn: changed since it was read"})
		wantErr(t, "late append", err, wantedError{session.ErrStale, ""})
		diff(t, "the session of the late one", before, plainState(t, sess))
		if late.Seq != 0 {
			t.Errorf("the refused event has seq %d", late.Seq)
		}
		diff(t, "what is stored", plainState(t, theirs), plainState(t, getSession(t, b, alice, nil)))
		appendEvent(t, b, theirs, textEvent("user", "mine now"))
		wantErr(t, "later append", a.Sessions.Append(t.Context(), sess, textEvent("user", "me?")), wantedError{session.ErrFenced, ""})

		release()
		next()
		acquire(t, a.Sessions, alice)()
		appendEvent(t, a, getSession(t, a, alice, nil), textEvent("user", "again"))
	})
}

// The same by the database's clock, where it has one.
func (su leaseSuite) testLeaseExpiry(t *testing.T) {
	stores := su.openReplicas(t, 2, &store.Options{Lease: 300 * time.Millisecond})
	a, b := stores[0], stores[1]
	sess := createSession(t, a, alice, nil)
	defer acquire(t, a.Sessions, alice)()
	appendEvent(t, a, sess, stateEvent(map[string]any{"k": 1}))
	killStore(a)
	defer acquire(t, b.Sessions, alice)()
	for _, late := range []*session.Event{textEvent("user", "hi"), stateEvent(map[string]any{"k": 2, "app:k": 2})} {
		wantErr(t, "late append", a.Sessions.Append(t.Context(), sess, late), wantedError{session.ErrFenced, ""})
	}
	theirs := getSession(t, b, alice, nil)
	diff(t, "what is stored", plainState(t, sess), plainState(t, theirs))
	appendEvent(t, b, theirs, textEvent("user", "mine now"))
}

// An event stored before the takeover stays stored, even if the response was lost.
func (su leaseSuite) testLeaseRepeatedEvent(t *testing.T) {
	su.runTimedPair(t, func(t *testing.T, a, b *testStore) {
		old := createSession(t, a, alice, nil)
		defer acquire(t, a.Sessions, alice)()
		ev := textEvent("user", "hi")
		appendEvent(t, a, getSession(t, a, alice, nil), ev)
		killStore(a)
		defer acquire(t, b.Sessions, alice)()
		again := *ev
		again.Seq = 0
		if err := a.Sessions.Append(t.Context(), old, &again); err != nil && !errors.Is(err, session.ErrStale) {
			t.Errorf("repeated append = %v", err)
		}
		if n := getSession(t, b, alice, nil).Version; n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

// A session that a run makes is the run's from its first moment.
func (su leaseSuite) testLeaseCreatedWithSession(t *testing.T) {
	a, b := su.openPair(t)
	release := acquire(t, a.Sessions, alice)
	sess := createSession(t, a, alice, nil)
	_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire of a session that was just made", err, wantedError{session.ErrBusy, ""})
	appendEvent(t, a, sess, textEvent("user", "hi"))
	release()
	acquire(t, b.Sessions, alice)()
}

// If another store creates the session first, the run's first event either acquires
// the session or fails with a busy error.
func (su leaseSuite) testLeaseSessionCreatedElsewhere(t *testing.T) {
	su.runTimedPair(t, func(t *testing.T, a, b *testStore) {
		defer acquire(t, a.Sessions, alice)()
		release := acquire(t, b.Sessions, alice)
		createSession(t, b, alice, nil)
		_, err := a.Sessions.Create(t.Context(), alice, nil)
		wantErr(t, "Create", err, wantedError{session.ErrExists, ""})
		sess := getSession(t, a, alice, nil)
		wantErr(t, "Append", a.Sessions.Append(t.Context(), sess, textEvent("user", "hi")), wantedError{session.ErrBusy, ""})
		release()
		time.Sleep(2 * maxHandover)
		appendEvent(t, a, sess, textEvent("user", "hi"))
		_, _, err = b.Sessions.Acquire(t.Context(), alice, 0)
		wantErr(t, "Acquire of the second store", err, wantedError{session.ErrBusy, "of " + a.owner})
	})
}

// A following turn in the same store reuses the lease; other waiting stores do not have to wait
// until it expires.
func (su leaseSuite) testLeaseIdleReuse(t *testing.T) {
	su.runTimedPair(t, func(t *testing.T, a, b *testStore) {
		createSession(t, a, alice, nil)
		acquire(t, a.Sessions, alice)()
		first := a.sessions.lastGrant(alice)
		acquire(t, a.Sessions, alice)()
		diff(t, "the lease of the second run", first, a.sessions.lastGrant(alice))
		time.Sleep(2 * maxHandover)
		acquire(t, b.Sessions, alice)()
		if g := b.sessions.lastGrant(alice); g.Epoch != first.Epoch+1 {
			t.Errorf("the lease of the other store is %+v, want epoch %d", g, first.Epoch+1)
		}
	})
}

func (su leaseSuite) testLeaseDeletedSession(t *testing.T) {
	a, b := su.openPair(t)
	createSession(t, a, alice, nil)
	acquire(t, a.Sessions, alice)()
	if err := a.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	createSession(t, b, alice, nil)
	defer acquire(t, a.Sessions, alice)()
	appendEvent(t, a, getSession(t, a, alice, nil), textEvent("user", "hi"))
	_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire", err, wantedError{session.ErrBusy, ""})
}

func (su leaseSuite) testCloseReleasesLeases(t *testing.T) {
	if !su.Durable {
		return // the stores share what Close closes
	}
	a, b := su.openPair(t)
	createSession(t, a, alice, nil)
	release := acquire(t, a.Sessions, alice)
	closeStore(t, a)
	release()
	_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
	if err != nil {
		t.Errorf("Acquire after the other store was closed = %v", err)
	}
	_, _, err = a.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire of a closed store", err, wantedError{store.ErrClosed, ""})
}

// Eight hosts take turns at one session: no turn has another's event in its midst, and none is
// lost.
func (su leaseSuite) testLeaseRace(t *testing.T) {
	const hosts, rounds = 8, 15
	stores := su.openReplicas(t, hosts, nil)
	createSession(t, stores[0], alice, nil)
	runConcurrently(t, hosts, func(i int) error {
		for n := range rounds {
			if err := raceTurn(t, stores[i].Sessions, fmt.Sprint(i, " ", n)); err != nil {
				return err
			}
		}
		return nil
	})
	sess := getSession(t, stores[0], alice, nil)
	if sess.Version != 2*hosts*rounds {
		t.Errorf("%d events, want %d", sess.Version, 2*hosts*rounds)
	}
	for i := 0; i+1 < sess.History.Len(); i += 2 {
		if a, b := sess.Events()[i], sess.Events()[i+1]; a.InvocationID != b.InvocationID || b.Seq != int64(i+2) {
			t.Fatalf("event %d is of turn %q, the next of %q", i, a.InvocationID, b.InvocationID)
		}
	}
}

func raceTurn(t *testing.T, s *store.Sessions, id string) error {
	_, release, err := s.Acquire(t.Context(), alice, time.Minute)
	if err != nil {
		return err
	}
	defer release()
	sess, err := s.Get(t.Context(), alice, nil)
	for range 2 {
		if err == nil {
			ev := textEvent("user", "hi")
			ev.InvocationID = id
			err = s.Append(t.Context(), sess, ev)
		}
	}
	return err
}

// Writers that never asked for the session are still kept apart by its version: only one wins each
// number.
func (su leaseSuite) testAppendRaceWithoutLease(t *testing.T) {
	const hosts, rounds = 8, 104
	stores := su.openReplicas(t, hosts, nil)
	createSession(t, stores[0], alice, nil)
	won := make([]int64, hosts)
	runConcurrently(t, hosts, func(i int) error {
		for range rounds / hosts {
			sess, err := stores[i].Sessions.Get(t.Context(), alice, nil)
			if err == nil {
				err = stores[i].Sessions.Append(t.Context(), sess, textEvent("user", "hi"))
			}
			if err == nil {
				won[i]++
			} else if !errors.Is(err, session.ErrStale) {
				return err
			}
		}
		return nil
	})
	var sum int64
	for _, n := range won {
		sum += n
	}
	if sess := getSession(t, stores[0], alice, nil); sess.Version != sum || int64(sess.History.Len()) != sum {
		t.Errorf("version %d, %d events, want %d", sess.Version, sess.History.Len(), sum)
	}
}

// A run that loses its lease is canceled promptly, not only at its next event; its context's cause
// has the reason.
func (su leaseSuite) testRunCancelledOnLeaseLoss(t *testing.T) {
	stores := su.openReplicas(t, 2, &store.Options{Lease: 300 * time.Millisecond})
	a, b := stores[0], stores[1]
	createSession(t, a, alice, nil)
	run, release, err := a.Sessions.Acquire(t.Context(), alice, 0)
	if err != nil {
		t.Fatal(err)
	}
	stealLease(t, a, b, alice)
	<-run.Done()
	wantErr(t, "the end of a run that was taken over", context.Cause(run), wantedError{session.ErrFenced, "session s was taken over by another host in the middle of this turn"})
	release()

	other := createSession(t, a, session.Key{App: "app", User: "alice", ID: "other"}, nil)
	run, release, err = a.Sessions.Acquire(t.Context(), other.Key, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Sessions.Delete(t.Context(), other.Key); err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	wantErr(t, "the end of a run whose session was deleted", context.Cause(run), wantedError{session.ErrNotFound, ""})
	release()

	run, release, err = a.Sessions.Acquire(t.Context(), session.Key{App: "app", User: "alice", ID: "third"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	release()
	wantErr(t, "the end of a run that was released", context.Cause(run), wantedError{context.Canceled, ""})
}

// stealLease transfers a lease to a store, as its expiry would.
func stealLease(t *testing.T, from, s *testStore, key session.Key) {
	t.Helper()
	for {
		g := from.sessions.lastGrant(key)
		if err := s.sessions.ReleaseLeases(t.Context(), []*store.LeaseGrant{&g}); err != nil {
			t.Fatal(err)
		}
		_, release, err := s.Sessions.Acquire(t.Context(), key, 0)
		if errors.Is(err, session.ErrBusy) {
			continue // from renewed the lease after its release
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(release)
		return
	}
}

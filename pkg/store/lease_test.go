package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/session"
)

// replicas opens stores that share their sessions, as hosts on one database do.
// Those in memory share a backend.
func replicas(t testing.TB, be testBackend, n int, o *Options) []*Store {
	url := be.url(t)
	all := []*Store{openStore(t, url, o)}
	for range n - 1 {
		s := openStore(t, url, o)
		if _, ok := s.Sessions.backend.(*memBackend); ok {
			s.Sessions.backend = all[0].Sessions.backend
			s.Sessions.leases.backend = all[0].Sessions.backend
		}
		all = append(all, s)
	}
	for _, s := range all {
		s.Sessions.leases.unshared = false
	}
	return all
}

func eachPair(t *testing.T, test func(t *testing.T, a, b *Store)) {
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			all := replicas(t, be, 2, nil)
			test(t, all[0], all[1])
		})
	}
}

// eachTimedPair is eachPair with a clock that advances when all goroutines wait.
func eachTimedPair(t *testing.T, test func(t *testing.T, a, b *Store)) {
	for _, be := range backends() {
		if be.name != "memory" && be.name != "sqlite" {
			continue // has a clock of its own
		}
		t.Run(be.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := replicas(t, be, 2, nil)
				test(t, all[0], all[1])
			})
		})
	}
}

// lease returns the lease of a session as its backend has it: who holds it until
// when.
func readLease(t *testing.T, s *Store, key session.Key) (l leaseColumns) {
	t.Helper()
	switch b := s.Sessions.backend.(type) {
	case *memBackend:
		b.mu.RLock()
		defer b.mu.RUnlock()
		m := b.sessions[key].lease
		l = leaseColumns{Owner: m.owner, Epoch: m.epoch}
		if !m.until.IsZero() {
			l.Until = m.until.UnixMicro()
		}
	case *sqlBackend:
		q := b.readers.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID)
		if err := q.Take(&l).Error; err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// killStore makes a store renew and release nothing any more, like one whose process
// has stopped.
func killStore(s *Store) {
	l := s.Sessions.leases
	l.mu.Lock()
	close(l.stopRenewal)
	l.stopRenewal = make(chan struct{})
	l.mu.Unlock()
	l.renewer.Wait()
}

// Only one store of a database runs a session at a time, and the next one sees the
// stored events even if it has cached the session.
func TestLeaseExclusive(t *testing.T) {
	eachPair(t, func(t *testing.T, a, b *Store) {
		createSession(t, a, alice, nil)
		other := createSession(t, a, session.Key{App: "app", User: "alice", ID: "other"}, nil)
		getSession(t, b, alice, nil)
		release := acquire(t, a.Sessions, alice)
		_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
		wantErr(t, "Acquire elsewhere", err, session.ErrBusy, "session s: busy with another run, of "+a.Sessions.leases.owner)
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
		wantErr(t, "Acquire of the first", err, session.ErrBusy, "of "+b.Sessions.leases.owner)
	})
}

// A waiting store acquires the session soon after its release, and otherwise fails
// with a busy error.
func TestLeaseWait(t *testing.T) {
	eachTimedPair(t, func(t *testing.T, a, b *Store) {
		createSession(t, a, alice, nil)
		release := acquire(t, a.Sessions, alice)
		start := time.Now()
		_, _, err := b.Sessions.Acquire(t.Context(), alice, 40*time.Second)
		wantErr(t, "Acquire of a session that is long in use", err, session.ErrBusy, "")
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
		if d := time.Since(start); d < 10*time.Second || d > 10*time.Second+2*idleLeaseDuration+maxLeasePause {
			t.Errorf("got the session after %v, want about 10s", d)
		}
	})
}

// A store that stops renewing loses its sessions; its later writes are rejected and
// change nothing.
func TestLeaseTakeover(t *testing.T) {
	eachTimedPair(t, func(t *testing.T, a, b *Store) {
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
		wantErr(t, "late append", err, session.ErrFenced, "session s was taken over by another host in the middle of this turn: changed since it was read")
		wantErr(t, "late append", err, session.ErrStale, "")
		diff(t, "the session of the late one", before, plainState(t, sess))
		if late.Seq != 0 {
			t.Errorf("the refused event has seq %d", late.Seq)
		}
		diff(t, "what is stored", plainState(t, theirs), plainState(t, getSession(t, b, alice, nil)))
		appendEvent(t, b, theirs, textEvent("user", "mine now"))
		wantErr(t, "later append", a.Sessions.Append(t.Context(), sess, textEvent("user", "me?")), session.ErrFenced, "")

		release()
		next()
		acquire(t, a.Sessions, alice)()
		appendEvent(t, a, getSession(t, a, alice, nil), textEvent("user", "again"))
	})
}

// The same by the clock of the database, where it has one.
func TestLeaseExpiry(t *testing.T) {
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			stores := replicas(t, be, 2, &Options{Lease: 300 * time.Millisecond})
			a, b := stores[0], stores[1]
			sess := createSession(t, a, alice, nil)
			defer acquire(t, a.Sessions, alice)()
			appendEvent(t, a, sess, stateEvent(map[string]any{"k": 1}))
			killStore(a)
			defer acquire(t, b.Sessions, alice)()
			for _, late := range []*session.Event{textEvent("user", "hi"), stateEvent(map[string]any{"k": 2, "app:k": 2})} {
				wantErr(t, "late append", a.Sessions.Append(t.Context(), sess, late), session.ErrFenced, "")
			}
			theirs := getSession(t, b, alice, nil)
			diff(t, "what is stored", plainState(t, sess), plainState(t, theirs))
			appendEvent(t, b, theirs, textEvent("user", "mine now"))
		})
	}
}

// An event stored before the takeover stays stored, even if the response was lost.
func TestLeaseRepeatedEvent(t *testing.T) {
	eachTimedPair(t, func(t *testing.T, a, b *Store) {
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
func TestLeaseCreatedWithSession(t *testing.T) {
	eachPair(t, func(t *testing.T, a, b *Store) {
		release := acquire(t, a.Sessions, alice)
		sess := createSession(t, a, alice, nil)
		_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
		wantErr(t, "Acquire of a session that was just made", err, session.ErrBusy, "")
		appendEvent(t, a, sess, textEvent("user", "hi"))
		release()
		acquire(t, b.Sessions, alice)()
	})
}

// If another store creates the session first, the run's first event either acquires
// the session or fails with a busy error.
func TestLeaseSessionCreatedElsewhere(t *testing.T) {
	eachTimedPair(t, func(t *testing.T, a, b *Store) {
		defer acquire(t, a.Sessions, alice)()
		release := acquire(t, b.Sessions, alice)
		createSession(t, b, alice, nil)
		_, err := a.Sessions.Create(t.Context(), alice, nil)
		wantErr(t, "Create", err, session.ErrExists, "")
		sess := getSession(t, a, alice, nil)
		wantErr(t, "Append", a.Sessions.Append(t.Context(), sess, textEvent("user", "hi")), session.ErrBusy, "")
		release()
		time.Sleep(4 * idleLeaseDuration)
		appendEvent(t, a, sess, textEvent("user", "hi"))
		if l := readLease(t, a, alice); l.Owner != a.Sessions.leases.owner {
			t.Errorf("the lease is %+v, want that of the first store", l)
		}
	})
}

// A following turn of the same store reuses the lease; other waiting stores do not
// have to wait until it expires.
func TestLeaseIdleReuse(t *testing.T) {
	eachTimedPair(t, func(t *testing.T, a, _ *Store) {
		createSession(t, a, alice, nil)
		acquire(t, a.Sessions, alice)()
		first := readLease(t, a, alice)
		acquire(t, a.Sessions, alice)()
		diff(t, "the lease of the second run", first, readLease(t, a, alice))
		time.Sleep(4 * idleLeaseDuration)
		diff(t, "the lease afterwards", leaseColumns{Owner: first.Owner, Epoch: first.Epoch}, readLease(t, a, alice))
		l := a.Sessions.leases
		l.mu.Lock()
		if len(l.held) != 0 || l.stopRenewal != nil {
			t.Errorf("%d leases held, keeper %v", len(l.held), l.stopRenewal)
		}
		l.mu.Unlock()
		acquire(t, a.Sessions, alice)()
		if l := readLease(t, a, alice); l.Epoch != first.Epoch+1 {
			t.Errorf("the next lease is %+v, want epoch %d", l, first.Epoch+1)
		}
	})
}

func TestLeaseDeletedSession(t *testing.T) {
	eachPair(t, func(t *testing.T, a, b *Store) {
		createSession(t, a, alice, nil)
		acquire(t, a.Sessions, alice)()
		if err := a.Sessions.Delete(t.Context(), alice); err != nil {
			t.Fatal(err)
		}
		createSession(t, b, alice, nil)
		defer acquire(t, a.Sessions, alice)()
		appendEvent(t, a, getSession(t, a, alice, nil), textEvent("user", "hi"))
		_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
		wantErr(t, "Acquire", err, session.ErrBusy, "")
	})
}

func TestCloseReleasesLeases(t *testing.T) {
	url := sqliteFile(t)
	a, b := openStore(t, url, nil), openStore(t, url, nil)
	createSession(t, a, alice, nil)
	release := acquire(t, a.Sessions, alice)
	closeStore(t, a)
	release()
	_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
	if err != nil {
		t.Errorf("Acquire after the other store was closed = %v", err)
	}
	_, _, err = a.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire of a closed store", err, errClosed, "")
}

// Eight hosts take turns at one session: no turn has an event of another in its
// midst, and none is lost.
func TestLeaseRace(t *testing.T) {
	const hosts, rounds = 8, 15
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			stores := replicas(t, be, hosts, nil)
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
		})
	}
}

func raceTurn(t *testing.T, s *Sessions, id string) error {
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

// Writers that never asked for the session are still kept apart by its version:
// one of them wins each number.
func TestAppendRaceWithoutLease(t *testing.T) {
	const hosts, rounds = 8, 104
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			stores := replicas(t, be, hosts, nil)
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
		})
	}
}

// A lease costs no flush to the disk; an event always has one.
func TestLeaseWritesNotSynced(t *testing.T) {
	for _, tt := range []struct{ query, light, whole string }{{"", "1", "2"}, {"?synchronous=normal", "1", "1"}} {
		s := openStore(t, sqliteFile(t)+tt.query, nil)
		createSession(t, s, alice, nil)
		level := func() (level string) {
			conn := s.Sessions.backend.(*sqlBackend).writers[0].conn
			if err := conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&level); err != nil {
				t.Fatal(err)
			}
			return level
		}
		defer acquire(t, s.Sessions, alice)()
		diff(t, "synchronous of the lease"+tt.query, tt.light, level())
		appendEvent(t, s, getSession(t, s, alice, nil), textEvent("user", "hi"))
		diff(t, "synchronous of the event"+tt.query, tt.whole, level())
	}
}

func TestOpenNegativeLease(t *testing.T) {
	_, err := Open(t.Context(), "memory:", &Options{Lease: -time.Second})
	if err == nil || !strings.Contains(err.Error(), "lease must not be negative, got -1s") {
		t.Errorf("Open = %v", err)
	}
}

// A run that loses its lease is canceled promptly, not only at its next event; the
// cause of its context has the reason.
func TestRunCancelledOnLeaseLoss(t *testing.T) {
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			stores := replicas(t, be, 2, &Options{Lease: 300 * time.Millisecond})
			a, b := stores[0], stores[1]
			createSession(t, a, alice, nil)
			run, release, err := a.Sessions.Acquire(t.Context(), alice, 0)
			if err != nil {
				t.Fatal(err)
			}
			stealLease(t, b, alice)
			<-run.Done()
			wantErr(t, "the end of a run that was taken over", context.Cause(run), session.ErrFenced, "session s was taken over by another host in the middle of this turn")
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
			wantErr(t, "the end of a run whose session was deleted", context.Cause(run), session.ErrNotFound, "")
			release()

			run, release, err = a.Sessions.Acquire(t.Context(), session.Key{App: "app", User: "alice", ID: "third"}, 0)
			if err != nil {
				t.Fatal(err)
			}
			release()
			wantErr(t, "the end of a run that was released", context.Cause(run), context.Canceled, "")
		})
	}
}

// stealLease transfers a lease to a store, as its expiry would.
func stealLease(t *testing.T, s *Store, key session.Key) {
	t.Helper()
	l := readLease(t, s, key)
	if err := s.Sessions.backend.releaseLeases(t.Context(), []*grant{{key: key, id: readHeadID(t, s, key), epoch: l.Epoch}}); err != nil {
		t.Fatal(err)
	}
	_, release, err := s.Sessions.Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
}

func readHeadID(t *testing.T, s *Store, key session.Key) int64 {
	t.Helper()
	snap, err := s.Sessions.backend.readSession(t.Context(), key, eventWindow{})
	if err != nil {
		t.Fatal(err)
	}
	return snap.id
}

// The sessions of a killed host are released immediately where liveness locks are
// supported; those of a slow host, or of an owner without a lock, are not.
func TestLeaseOfKilledProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: liveness locks require Linux")
	}
	url := sqliteFile(t)
	o := &Options{Lease: time.Hour}
	a, b := openStore(t, url, o), openStore(t, url, o)
	sess := createSession(t, a, alice, nil)
	defer acquire(t, a.Sessions, alice)()
	killStore(a)
	_, _, err := b.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire while the holder lives", err, session.ErrBusy, "")
	if err := a.Sessions.backend.(*sqlBackend).liveness.close(); err != nil {
		t.Fatal(err)
	}
	a.Sessions.backend.(*sqlBackend).liveness = nil
	release := acquire(t, b.Sessions, alice)
	wantErr(t, "late append", a.Sessions.Append(t.Context(), sess, textEvent("user", "hi")), session.ErrFenced, "")
	release()
	closeStore(t, b)

	c := openStore(t, url, o)
	execSQL(t, url, fmt.Sprintf("UPDATE sessions SET lease_owner = 'old/1/12345678', lease_until = %d", time.Now().Add(time.Hour).UnixMicro()))
	_, _, err = c.Sessions.Acquire(t.Context(), alice, 0)
	wantErr(t, "Acquire of what an older version holds", err, session.ErrBusy, "of old/1/12345678")
}

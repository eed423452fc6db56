package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A pruneClock is the clock for a store whose sessions age by days. It is before all database
// servers' time, so that it decides what is expired.
type pruneClock struct{ time.Time }

func newPruneClock() *pruneClock {
	return &pruneClock{time.Date(2020, 11, 21, 0, 0, 0, 0, time.UTC)}
}

func (c *pruneClock) newOptions() *store.Options {
	return &store.Options{Clock: func() time.Time { return c.Time }}
}

func (c *pruneClock) advanceDays(n int) { c.Time = c.AddDate(0, 0, n) }

const day = 24 * time.Hour

func numberedKey(i int) session.Key { return session.Key{App: "app", User: "u", ID: fmt.Sprint(i)} }

// Old sessions are deleted with all that is theirs, whatever their number. Younger ones, those in
// other apps, those with a run, and what belongs to the user stay.
func (su *Suite) testPrune(t *testing.T) {
	const old = 500 + 107
	clock := newPruneClock()
	s := su.open(t, clock.newOptions())
	for i := range old {
		createSession(t, s, numberedKey(i), map[string]any{"k": i, "user:k": i})
	}
	saveText(t, s, numberedKey(0), "note.txt")
	saveText(t, s, numberedKey(0), "user:note.txt")
	createSession(t, s, session.Key{App: "other", User: "u", ID: "x"}, nil)
	running, spoken := numberedKey(3), numberedKey(5)
	release := acquire(t, s.Sessions, running)
	clock.advanceDays(2)
	appendEvent(t, s, getSession(t, s, spoken, nil), textEvent("user", "still here"))
	young := createSession(t, s, session.Key{App: "app", User: "u", ID: "young"}, nil)

	req := &store.PruneRequest{App: "app", Age: day}
	wantPruned(t, s, req, old-2)
	wantPruned(t, s, req, 0)
	release()
	wantPruned(t, s, req, 1)

	list, err := s.Sessions.List(t.Context(), "app", "")
	if err != nil || len(list) != 2 || list[0].ID != spoken.ID || list[1].ID != young.ID {
		t.Errorf("%d sessions are left, %v", len(list), err)
	}
	for k, want := range map[session.Key]int{numberedKey(0): 1, spoken: 1} {
		if names, err := s.Artifacts.Keys(t.Context(), k); err != nil || len(names) != want {
			t.Errorf("artifacts of %s = %v, %v, want %d", k.ID, names, err, want)
		}
	}
}

// A session is deleted when both its creation and its last event are too old: after a
// retention without events, however often it was found active before, and not because its
// events were imported with older times.
func (su *Suite) testPruneActiveSessions(t *testing.T) {
	clock := newPruneClock()
	s := su.open(t, clock.newOptions())
	spoken, imported := numberedKey(1), numberedKey(2)
	createSession(t, s, spoken, nil)
	for _, deleted := range []int{0, 0, 0} {
		clock.advanceDays(20)
		appendEvent(t, s, getSession(t, s, spoken, nil), textEvent("user", "again"))
		wantPruned(t, s, &store.PruneRequest{App: "app", Age: 30 * day}, deleted)
	}
	createSession(t, s, imported, nil)
	old := textEvent("user", "long ago")
	old.Timestamp = clock.AddDate(-1, 0, 0)
	appendEvent(t, s, getSession(t, s, imported, nil), old)
	for _, deleted := range []int{0, 0, 2, 0} {
		wantPruned(t, s, &store.PruneRequest{App: "app", Age: 30 * day}, deleted)
		clock.advanceDays(20)
	}
	// A shorter retention finds sessions that a longer one has recorded as active.
	createSession(t, s, spoken, nil)
	clock.advanceDays(8)
	for _, tt := range []struct{ age, deleted int }{{30, 0}, {9, 0}, {7, 1}} {
		wantPruned(t, s, &store.PruneRequest{App: "app", Age: time.Duration(tt.age) * day}, tt.deleted)
	}
}

// A dry run reports each session that a pruning would delete, in pages, and leases none.
func (su *Suite) testPruneDryRun(t *testing.T) {
	const old = 500 + 107
	clock := newPruneClock()
	s := su.open(t, clock.newOptions())
	for i := range old {
		createSession(t, s, numberedKey(i), nil)
	}
	running := numberedKey(3)
	release := acquire(t, s.Sessions, running)
	clock.advanceDays(2)
	appendEvent(t, s, getSession(t, s, numberedKey(5), nil), textEvent("user", "still here"))
	leases := s.sessions.countGrants()
	for range 2 {
		var reported []session.Key
		wantPruned(t, s, &store.PruneRequest{
			App: "app", Age: day, DryRun: true, Interval: time.Hour,
			Each: func(k session.Key) { reported = append(reported, k) },
		}, old-2)
		if len(reported) != old-2 || slices.Contains(reported, running) || slices.Contains(reported, numberedKey(5)) {
			t.Errorf("reported %d sessions", len(reported))
		}
	}
	if n := s.sessions.countGrants() - leases; n != 0 {
		t.Errorf("a dry run has leased %d sessions", n)
	}
	release()
	wantPruned(t, s, &store.PruneRequest{App: "app", Age: day}, old-1)
}

// A sweep that was reserved while the store's clock ran ahead does not stop retention until then,
// once the clock is right again. A server has its own clock.
func (su *Suite) testSweepAfterClockJump(t *testing.T) {
	b, err := su.Create(t)(t.Context(), &store.Options{Owner: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Sessions.Close()
	now := time.Now()
	for _, tt := range []struct {
		owner string
		at    time.Time
		want  bool
	}{{"a", now.AddDate(1, 0, 0), true}, {"b", now, su.LocalClock}, {"b", now, su.LocalClock}, {"a", now, !su.LocalClock}} {
		got, err := b.Sessions.AcquireSweep(t.Context(), store.Sweep{App: "app", Owner: tt.owner, Term: time.Hour, Now: tt.at})
		if got != tt.want || err != nil {
			t.Errorf("store %s acquires the sweep at %s: %t, %v, want %t", tt.owner, tt.at, got, err, tt.want)
		}
	}
}

// With an interval, one store at a time prunes an app: another one does nothing until the interval
// has passed since the first one's last page.
func (su *Suite) testPruneOneStore(t *testing.T) {
	clock := newPruneClock()
	all := su.openReplicas(t, 2, clock.newOptions())
	createSession(t, all[0], numberedKey(1), nil)
	clock.advanceDays(2)
	prune := func(i int, interval time.Duration, want int) {
		t.Helper()
		wantPruned(t, all[i], &store.PruneRequest{App: "app", Age: day, Interval: interval}, want)
	}
	prune(0, time.Hour, 1)
	createSession(t, all[0], session.Key{App: "other", User: "u", ID: "1"}, nil)
	createSession(t, all[0], numberedKey(2), nil)
	clock.advanceDays(-2) // the hour has not passed for either clock
	prune(1, time.Hour, 0)
	clock.advanceDays(4)
	prune(0, time.Microsecond, 1)
	createSession(t, all[0], numberedKey(3), nil)
	clock.advanceDays(2)
	prune(1, time.Hour, 1)
	createSession(t, all[0], numberedKey(4), nil)
	prune(0, time.Hour, 0)
	wantPruned(t, all[0], &store.PruneRequest{App: "other", Age: day, Interval: time.Hour}, 1)
}

// The earlier clock counts, a host's or its database's: a host whose clock runs ahead deletes
// nothing.
func (su *Suite) testPruneEarlierClock(t *testing.T) {
	if su.LocalClock {
		return // there is only one clock
	}
	clock := newPruneClock()
	s := su.open(t, clock.newOptions())
	clock.Time = time.Now()
	createSession(t, s, numberedKey(1), nil)
	clock.advanceDays(400)
	wantPruned(t, s, &store.PruneRequest{App: "app", Age: 30 * day}, 0)
	clock.advanceDays(-800)
	wantPruned(t, s, &store.PruneRequest{App: "app", Age: 30 * day}, 0)
}

func wantPruned(t *testing.T, s *testStore, req *store.PruneRequest, want int) {
	t.Helper()
	if n, err := s.Prune(t.Context(), req); err != nil || n != want {
		t.Errorf("Prune = %d, %v, want %d", n, err, want)
	}
}

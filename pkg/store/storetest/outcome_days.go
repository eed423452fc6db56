package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// outcomeDaySuite tests outcomes of deleted sessions.
type outcomeDaySuite struct{ *Suite }

func (su outcomeDaySuite) listTests() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"DeletedOutcomes":           su.testDeletedOutcomes,
		"PrunedOutcomes":            su.testPrunedOutcomes,
		"DeletedOutcomesBounded":    su.testDeletedOutcomesBounded,
		"DeletedOutcomesConcurrent": su.testDeletedOutcomesConcurrent,
	}
}

const oneDay = 24 * time.Hour

// keptDays are the outcomes of an app's deleted sessions as text, the latest day first.
func keptDays(t testing.TB, s *testStore, since time.Time) (all []string) {
	t.Helper()
	err := s.Outcomes.EachDay(t.Context(), &store.KeptOutcomesRequest{App: "app", Since: since}, func(d *store.OutcomeDay) error {
		if d.Damaged {
			t.Errorf("day %d is damaged", d.Day)
		}
		for _, o := range d.Totals {
			all = append(all, fmt.Sprintf("day %d %s %s: %d turns, %d failed; sessions %v %v %v %v; %d scores, sum %g, squares %g",
				d.Day, o.Revision, o.Protocol, o.Turns, o.CountFailed(), o.Here, o.OfRevision, o.OfDay, o.Latest, o.Scores, o.ScoreSum, o.ScoreSquares))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// countOutcomes stores outcomes in a session, with one event for each, and one more for those that failed.
func countOutcomes(t testing.TB, s *testStore, key session.Key, all ...session.Outcome) {
	t.Helper()
	sess := createSession(t, s, key, nil)
	for _, o := range all {
		o.Previous = sess.Version
		sess.Outcome = o.Append(nil)
		appendEvent(t, s, sess, textEvent("user", "secret words of "+key.User))
	}
}

// A deletion keeps outcomes and scores as sums by day, revision and protocol, if their day is young enough.
// A session counts once in the total of its latest outcome, and once for each revision. A second
// deletion of the session counts nothing.
func (su outcomeDaySuite) testDeletedOutcomes(t *testing.T) {
	now := time.Unix(100*86400+3600, 0)
	s := su.open(t, &store.Options{Clock: func() time.Time { return now }})
	turns := func(day int64, revision string, n int64, code string) session.Outcome {
		return session.Outcome{Day: day, Revision: revision, Protocol: "run", Turns: n, Code: code, Agents: []session.AgentOutcome{{Agent: "desk", Calls: n, Input: 10 * n}}}
	}
	bob := session.Key{App: "app", User: "bob", ID: "s"}
	gone := session.Key{App: "app", User: "bob", ID: "gone"}
	countOutcomes(t, s, alice, turns(89, "r1", 7, ""), turns(90, "r1", 1, "X"), turns(95, "r1", 2, ""), turns(95, "r2", 4, ""))
	countOutcomes(t, s, bob, turns(95, "r2", 8, ""), turns(200, "r2", 16, "")) // a clock ran ahead
	countOutcomes(t, s, gone, turns(95, "r2", 32, ""))
	for caller, score := range map[string]float64{"alice": 1, "carol": -0.5} {
		f := &store.Feedback{Invocation: "e-1", Caller: caller, Revision: "r1", Score: score, Comment: "private"}
		if err := s.Outcomes.SaveFeedback(t.Context(), alice, f); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for key, keep := range map[session.Key]time.Duration{alice: 10 * oneDay, bob: 10 * oneDay, gone: 0} {
			if err := s.Delete(t.Context(), key, keep); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, _ := sessionOutcomes(t, s, &store.OutcomeRequest{App: "app"})
	wantEqual(t, "outcomes of sessions", 0, len(all))
	want := []string{
		"day 100 r2 run: 16 turns, 0 failed; sessions {1 0} {1 0} {1 0} {1 0}; 0 scores, sum 0, squares 0",
		"day 95 r2 run: 12 turns, 0 failed; sessions {2 0} {1 0} {2 0} {1 1}; 0 scores, sum 0, squares 0",
		"day 95 r1 run: 2 turns, 0 failed; sessions {1 0} {1 1} {0 0} {0 0}; 2 scores, sum 0.5, squares 1.25",
		"day 90 r1 run: 1 turns, 1 failed; sessions {1 1} {0 0} {1 1} {0 0}; 0 scores, sum 0, squares 0",
	}
	s.dropCache()
	got := keptDays(t, s, time.Time{})
	if len(got) > 2 && got[1] == want[2] { // the order of deletions, and so of totals, is random
		got[1], got[2] = got[2], got[1]
	}
	wantEqual(t, "kept outcomes", want, got)
	wantEqual(t, "kept outcomes of recent days", want[:1], keptDays(t, s, now.Add(-oneDay)))
	wantErr(t, "days without an app", s.Outcomes.EachDay(t.Context(), &store.KeptOutcomesRequest{}, nil), wantedError{session.ErrInvalid, "app is required"})

	// They are deleted by their day; a shorter retention deletes more, and none deletes all.
	for _, tt := range []struct {
		keep            time.Duration
		deleted, totals int
	}{{10 * oneDay, 0, 4}, {9 * oneDay, 1, 3}, {4 * oneDay, 1, 1}, {0, 1, 0}, {0, 0, 0}} {
		n, err := s.PruneOutcomes(t.Context(), "app", tt.keep)
		if err != nil || n != tt.deleted {
			t.Errorf("PruneOutcomes(%v) = %d, %v, want %d", tt.keep, n, err, tt.deleted)
		}
		wantEqual(t, fmt.Sprint("totals with ", tt.keep), tt.totals, len(keptDays(t, s, time.Time{})))
	}
}

// Retention keeps outcomes as a deletion does.
func (su outcomeDaySuite) testPrunedOutcomes(t *testing.T) {
	now := time.Unix(100*86400, 0)
	s := su.open(t, &store.Options{Clock: func() time.Time { return now }})
	countOutcomes(t, s, alice, session.Outcome{Day: 100, Revision: "r", Turns: 3})
	now = now.Add(40 * oneDay)
	n, err := s.Prune(t.Context(), &store.PruneRequest{App: "app", Age: 30 * oneDay, KeepOutcomes: 400 * oneDay})
	if err != nil || n != 1 {
		t.Fatalf("Prune = %d, %v", n, err)
	}
	wantEqual(t, "kept outcomes", []string{"day 100 r : 3 turns, 0 failed; sessions {1 0} {1 0} {1 0} {1 0}; 0 scores, sum 0, squares 0"}, keptDays(t, s, time.Time{}))
}

// However many revisions a day has, its totals are few, and none is lost. More days than a page has are
// all listed.
func (su outcomeDaySuite) testDeletedOutcomesBounded(t *testing.T) {
	const days, revisions = 120, 90
	s := su.open(t, &store.Options{Clock: func() time.Time { return time.Unix(days*86400, 0) }})
	var all []session.Outcome
	for day := range int64(days) {
		all = append(all, session.Outcome{Day: day, Revision: "r", Protocol: "run", Turns: 1})
	}
	all = append(all, session.Outcome{Day: days, Revision: "a\x00b", Protocol: "run", Turns: 1})
	for i := range revisions {
		all = append(all, session.Outcome{Day: days, Revision: fmt.Sprint("r", i), Protocol: "run", Turns: 1})
	}
	countOutcomes(t, s, alice, all...)
	if err := s.Delete(t.Context(), alice, 1000*oneDay); err != nil {
		t.Fatal(err)
	}
	listed, turns, totals := 0, int64(0), 0
	err := s.Outcomes.EachDay(t.Context(), &store.KeptOutcomesRequest{App: "app"}, func(d *store.OutcomeDay) error {
		listed, totals = listed+1, max(totals, len(d.Totals))
		for _, o := range d.Totals {
			turns += o.Turns
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "days, totals and turns", []int64{days + 1, 64, days + revisions + 1}, []int64{int64(listed), int64(totals), turns})
}

// While two stores delete the same sessions and a third caller appends to them, each acknowledged turn is kept
// once.
func (su outcomeDaySuite) testDeletedOutcomesConcurrent(t *testing.T) {
	a, b := su.openPair(t)
	const sessions = 24
	var acknowledged int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range sessions {
		key := session.Key{App: "app", User: fmt.Sprint("u", i), ID: "s"}
		sess := createSession(t, a, key, nil)
		o := session.Outcome{Day: 1 << 30, Revision: "r", Protocol: "run"} // counts as today
		started := make(chan struct{})
		wg.Go(func() {
			for n := range int64(50) {
				sess.Outcome = countTurn(t, &o)
				err := a.Sessions.Append(t.Context(), sess, textEvent("user", "hi"))
				if n == 0 {
					close(started)
				}
				if err != nil {
					if !errors.Is(err, session.ErrNotFound) {
						t.Errorf("Append = %v", err)
					}
					return
				}
				mu.Lock()
				acknowledged++
				mu.Unlock()
			}
		})
		for _, s := range []*testStore{a, b} {
			wg.Go(func() {
				<-started
				if err := s.Delete(t.Context(), key, oneDay); err != nil {
					t.Errorf("Delete = %v", err)
				}
			})
		}
	}
	wg.Wait()
	var turns, count int64
	err := b.Outcomes.EachDay(t.Context(), &store.KeptOutcomesRequest{App: "app"}, func(d *store.OutcomeDay) error {
		for _, o := range d.Totals {
			turns, count = turns+o.Turns, count+o.Latest.Sessions
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "kept turns and sessions", []int64{acknowledged, sessions}, []int64{turns, count})
}

package sqlstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A pruning reads the last event in an old but active session once, and then not again before the
// session could be expired. A dry run changes nothing.
func TestPruneExaminesOnce(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		const sessions = 230
		now := time.Date(2020, 11, 21, 0, 0, 0, 0, time.UTC)
		s := openStore(t, url, &store.Options{Clock: func() time.Time { return now }})
		for i := range sessions {
			sess := createSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, nil)
			now = now.AddDate(0, 0, 40)
			appendEvent(t, s, sess, textEvent("user", "still here"))
			now = now.AddDate(0, 0, -40)
		}
		now = now.AddDate(0, 0, 41)
		const age = 30 * 24 * time.Hour
		q := store.ExpiryQuery{App: "app", Before: now.Add(-age), Limit: 10 * sessions, Now: now}
		examined := func() int {
			page, young, err := s.db.examinePage(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Sessions) + len(young)
		}
		for _, tt := range []struct {
			dryRun bool
			want   int
		}{{true, sessions}, {false, 0}} {
			n, err := s.Prune(t.Context(), &store.PruneRequest{App: "app", Age: age, DryRun: tt.dryRun})
			if n != 0 || err != nil {
				t.Errorf("Prune = %d, %v", n, err)
			}
			if n := examined(); n != tt.want {
				t.Errorf("a search after a pruning (dry run %t) examines %d sessions, want %d", tt.dryRun, n, tt.want)
			}
		}
		q.Before = now
		if n := examined(); n != sessions {
			t.Errorf("a search without retention examines %d sessions, want %d", n, sessions)
		}
	})
}

// A database with schema version 8 has sessions without a recorded time, and gets more from older
// replicas that still run. The first pruning examines them: it deletes the old ones and keeps the
// others.
func TestRetentionMigration(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		now := time.Date(2020, 11, 21, 0, 0, 0, 0, time.UTC)
		opts := &store.Options{Clock: func() time.Time { return now }}
		s := openStore(t, url, opts)
		switch {
		case s.db.dialect.questionMarks:
			runStatements(t, s, "DROP INDEX sessions_by_age ON sessions")
		case s.db.dialect.server == nil: // on PostgreSQL the index is dropped with its column
			runStatements(t, s, "DROP INDEX sessions_by_age")
		}
		runStatements(t, s, "ALTER TABLE sessions DROP COLUMN active_time", "DROP TABLE retention_sweeps",
			"DELETE FROM schema_migrations WHERE version >= 9",
			insertOldSession("old", now.AddDate(0, 0, -40)), insertOldSession("young", now.AddDate(0, 0, -2)))
		closeStore(t, s)
		s = openStore(t, url, opts)
		runStatements(t, s, insertOldSession("late", now.AddDate(0, 0, -1)))
		for _, want := range []int{1, 0} {
			n, err := s.Prune(t.Context(), &store.PruneRequest{App: "app", Age: 30 * 24 * time.Hour})
			if n != want || err != nil {
				t.Errorf("Prune = %d, %v, want %d", n, err, want)
			}
		}
		var zero int
		if err := s.db.reads.QueryRowContext(t.Context(), "SELECT count(*) FROM sessions WHERE active_time = 0").Scan(&zero); err != nil || zero != 0 {
			t.Errorf("%d sessions have no recorded time, %v", zero, err)
		}
		getSession(t, s, session.Key{App: "app", User: "u", ID: "young"}, nil)
		getSession(t, s, session.Key{App: "app", User: "u", ID: "late"}, nil)
	})
}

// A sweep that a store reserved while the clock ran ahead does not stop retention until then,
// once the clock is right again.
func TestSweepAfterClockJump(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		s := openStore(t, url, nil)
		acquire := func(owner string) bool {
			t.Helper()
			ok, err := s.db.AcquireSweep(t.Context(), store.Sweep{App: "app", Owner: owner, Term: time.Hour, Now: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		if first, second := acquire("a"), acquire("b"); !first || second {
			t.Fatalf("the first store has the sweep: %t, the second one: %t", first, second)
		}
		runStatements(t, s, fmt.Sprintf("UPDATE retention_sweeps SET until_time = until_time + %d", (365*24*time.Hour).Microseconds()))
		if !acquire("b") {
			t.Error("a sweep is reserved for a year")
		}
		if acquire("a") {
			t.Error("two stores have the sweep")
		}
	})
}

// insertOldSession is what a program with schema version 8 writes.
func insertOldSession(id string, created time.Time) string {
	return fmt.Sprintf("INSERT INTO sessions (app_name, user_id, id, create_time, initial) VALUES ('app', 'u', '%s', %d, '{}')", id, created.UnixMicro())
}

func runStatements(t *testing.T, s *testStore, all ...string) {
	t.Helper()
	err := s.db.writers[0].runWrite(t.Context(), func(w *writer) error {
		for _, text := range all {
			if _, err := w.conn.ExecContext(context.Background(), text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

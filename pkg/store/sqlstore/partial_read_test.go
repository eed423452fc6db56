package sqlstore

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// fillSession puts many events into a session in one transaction, a second apart.
func fillSession(t testing.TB, s *testStore, key session.Key, n int) (first time.Time) {
	t.Helper()
	first = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	createSession(t, s, key, nil)
	b := s.db
	err := b.writers[0].runWrite(t.Context(), func(w *writer) error {
		for i := range n {
			ev := textEvent("user", fmt.Sprint(i))
			ev.ID, ev.Timestamp = fmt.Sprint(i), first.Add(time.Duration(i)*time.Second)
			text, err := session.AppendEvent(nil, ev)
			if err != nil {
				return err
			}
			a := &appendJob{AppendRecord: store.AppendRecord{Key: key, Version: int64(i), Event: ev}, text: string(text)}
			if err := w.insertEvent(a, b.dialect); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.dropCache()
	return first
}

// queryPlan is how a store's engine executes a query, in its own words.
func queryPlan(t *testing.T, b *Database, text string) string {
	t.Helper()
	rows, err := b.readers.Raw(text).Rows()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	if err := scanRows(rows, func(rows *sql.Rows) error {
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		texts, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range texts {
			into[i] = &texts[i]
		}
		err = rows.Scan(into...)
		for _, text := range texts {
			fmt.Fprint(&plan, text.String, " ")
		}
		fmt.Fprintln(&plan)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

// The latest events, and those after a time, are found from the session's end by its key: nothing
// is looked through or sorted, on any engine.
func TestPartialReadUsesPrimaryKey(t *testing.T) {
	for _, tt := range []struct {
		engine, explain, refresh string
		want                     string
		never                    []string
	}{
		{"sqlite", "EXPLAIN QUERY PLAN ", "ANALYZE", "SEARCH events USING PRIMARY KEY (session_pk=? AND seq", []string{"SCAN", "TEMP B-TREE"}},
		{"postgres", "EXPLAIN ", "ANALYZE events", "Index Scan Backward using events_pkey on events", []string{"Seq Scan", "Sort"}},
		{"mysql", "EXPLAIN ", "ANALYZE TABLE events", " PRIMARY 16 ", []string{" ALL ", "filesort"}},
	} {
		t.Run(tt.engine, func(t *testing.T) {
			url := newDatabase(t, tt.engine)
			s := openStore(t, url, nil)
			first := fillSession(t, s, alice, 5000)
			for i := range 20 {
				fillSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, 100)
			}
			execSQL(t, url, tt.refresh)
			at := first.Add(4990 * time.Second)
			b := s.db
			snap, err := b.ReadSession(t.Context(), alice, store.EventWindow{})
			if err != nil {
				t.Fatal(err)
			}
			id := snap.ID
			for _, w := range []store.EventWindow{{Last: 10}, {Last: -1, After: &at}, {Last: 10, After: &at}} {
				dry := *b
				dry.readers = b.readers.Session(&gorm.Session{DryRun: true})
				var rows []eventRow
				st := dry.narrowQuery(t.Context(), store.Head{ID: id, Version: 5000}, w).Find(&rows).Statement
				plan := queryPlan(t, b, tt.explain+b.readers.Dialector.Explain(st.SQL.String(), st.Vars...))
				for _, never := range tt.never {
					if strings.Contains(plan, never) {
						t.Errorf("window %+v: there is %q in\n%s", w, never, plan)
					}
				}
				if !strings.Contains(plan, tt.want) {
					t.Errorf("window %+v: there is no %q in\n%s", w, tt.want, plan)
				}
			}
		})
	}
}

// A long session's window has the right events, and no other comes into memory.
func TestPartialReadOfLongSession(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	first := fillSession(t, s, alice, 50_000)
	last := 3
	for _, o := range []*store.GetOptions{{NumRecentEvents: &last}, {After: first.Add(49_997 * time.Second)}} {
		sess := getSession(t, s, alice, o)
		if sess.Version != 50_000 || sess.History.Len() != 3 || sess.Events()[0].Seq != 49_998 {
			t.Errorf("%+v: version %d, %d events", o, sess.Version, sess.History.Len())
		}
	}
	if s.Stats().CacheSessions != 0 {
		t.Error("the whole session was read")
	}
}

// BenchmarkNarrowTurn is a turn that looks at the last ten events in a session that is not in
// memory.
func BenchmarkNarrowTurn(b *testing.B) {
	for _, n := range []int{10, 5000, 50_000} {
		for _, by := range []string{"number", "time"} {
			b.Run(fmt.Sprint(by, "/", n), func(b *testing.B) {
				s := openStore(b, sqliteFile(b), nil)
				first := fillSession(b, s, alice, n)
				at := func(i int) time.Time { return first.Add(time.Duration(i) * time.Second) }
				ten := 10
				for i := n; b.Loop(); i++ {
					o := &store.GetOptions{NumRecentEvents: &ten}
					if by == "time" {
						o = &store.GetOptions{After: at(i - 10)}
					}
					sess, err := s.Sessions.Get(b.Context(), alice, o)
					if err != nil {
						b.Fatal(err)
					}
					ev := textEvent("user", "hello there, how are you today?")
					ev.Timestamp = at(i)
					appendEvent(b, s, sess, ev)
				}
			})
		}
	}
}

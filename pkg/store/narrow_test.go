package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// fill puts many events into a session in one transaction, a second apart.
func fill(t testing.TB, s *Store, key session.Key, n int) (first time.Time) {
	t.Helper()
	first = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	create(t, s, key, nil)
	b := s.Sessions.backend.(*sqlBackend)
	err := b.writers[0].do(t.Context(), func(w *writer) error {
		for i := range n {
			ev := said("user", fmt.Sprint(i))
			ev.ID, ev.Timestamp = fmt.Sprint(i), first.Add(time.Duration(i)*time.Second)
			text, err := session.AppendEvent(nil, ev)
			if err != nil {
				return err
			}
			a := &appendJob{record: record{key: key, version: int64(i), event: ev}, text: string(text)}
			if err := w.append(a, b.dialect); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Sessions.cache.drop(key)
	return first
}

// The latest events, and those after a time, are found from the end of the
// session by its key: nothing is looked through or sorted.
func TestNarrowReadsUseTheKey(t *testing.T) {
	b := openStore(t, sqliteFile(t), nil).Sessions.backend.(*sqlBackend)
	for _, w := range []window{{last: 10}, {last: -1, after: &time.Time{}}, {last: 10, after: &time.Time{}}} {
		dry := *b
		dry.readers = b.readers.Session(&gorm.Session{DryRun: true})
		var rows []eventRow
		st := dry.narrowQuery(t.Context(), head{id: 1, version: 50_000}, w).Find(&rows).Statement
		var plan []struct{ Detail string }
		if err := b.readers.Raw("EXPLAIN QUERY PLAN "+st.SQL.String(), st.Vars...).Scan(&plan).Error; err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(plan)
		if strings.Contains(text, "SCAN") || strings.Contains(text, "TEMP B-TREE") || !strings.Contains(text, "SEARCH events USING PRIMARY KEY (session_pk=? AND seq") {
			t.Errorf("window %+v: %s", w, text)
		}
	}
}

// A window of a long session has the right events, and no other comes into
// memory.
func TestNarrowReadOfALongSession(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	first := fill(t, s, alice, 50_000)
	last := 3
	for _, o := range []*GetOptions{{NumRecentEvents: &last}, {After: first.Add(49_997 * time.Second)}} {
		sess := get(t, s, alice, o)
		if sess.Version != 50_000 || sess.History.Len() != 3 || sess.Events()[0].Seq != 49_998 {
			t.Errorf("%+v: version %d, %d events", o, sess.Version, sess.History.Len())
		}
	}
	if s.Sessions.cache.find(alice) != nil {
		t.Error("the whole session was read")
	}
}

// BenchmarkNarrowTurn is a turn that looks at the last ten events, of a session
// that is not in memory.
func BenchmarkNarrowTurn(b *testing.B) {
	for _, n := range []int{10, 5000, 50_000} {
		for _, by := range []string{"number", "time"} {
			b.Run(fmt.Sprint(by, "/", n), func(b *testing.B) {
				s := openStore(b, sqliteFile(b), nil)
				first := fill(b, s, alice, n)
				at := func(i int) time.Time { return first.Add(time.Duration(i) * time.Second) }
				ten := 10
				for i := n; b.Loop(); i++ {
					o := &GetOptions{NumRecentEvents: &ten}
					if by == "time" {
						o = &GetOptions{After: at(i - 10)}
					}
					sess, err := s.Sessions.Get(b.Context(), alice, o)
					if err != nil {
						b.Fatal(err)
					}
					ev := said("user", "hello there, how are you today?")
					ev.Timestamp = at(i)
					appendTo(b, s, sess, ev)
				}
			})
		}
	}
}

package sqlstore

import (
	"strings"
	"testing"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A session from another agenthost database comes with its outcomes. They name events by number, so
// that they are left out if an event is.
func TestImportOutcomes(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		source, target := sqliteFile(t), sqliteFile(t)
		s := openStore(t, source, nil)
		sess := createSession(t, s, alice, nil)
		for _, revision := range []string{"r1", "r2"} {
			o := session.Outcome{Revision: revision, Turns: 1, Previous: sess.Version}
			sess.Outcome = o.Append(nil)
			appendEvent(t, s, sess, textEvent("user", "hi"))
		}
		if damaged {
			err := s.db.writers[0].runWrite(t.Context(), func(w *writer) error {
				return w.orm.Exec("UPDATE events SET event = '{' WHERE seq = 1").Error
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		closeStore(t, s)
		r, err := allEngines().OpenReadOnly(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.Sessions(t.Context())
		if err == nil {
			err = r.Fill(t.Context(), all[0], func(string, error) {})
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		runImport(t, openImporter(t, target), all[0])
		var got []string
		_, err = openStore(t, target, nil).Outcomes.EachSession(t.Context(), &store.OutcomeRequest{App: alice.App}, func(one *store.SessionOutcomes) error {
			for _, o := range one.Outcomes {
				got = append(got, o.Revision)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{false: "r2 r1"}[damaged]; strings.Join(got, " ") != want {
			t.Errorf("damaged %v: outcomes %q, want %q", damaged, got, want)
		}
	}
}

// The statements that list outcomes find their rows by indexes.
func TestOutcomePlan(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	for _, q := range []store.OutcomeQuery{{App: "a", Limit: 9}, {App: "a", User: "u", Before: 7, Limit: 9}} {
		dry := s.db.readers.Session(&gorm.Session{DryRun: true})
		stmt := sqlOutcomes{s.db}.queryPage(dry, q).Find(&[]outcomeHead{}).Statement
		rows, err := s.db.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+stmt.SQL.String(), stmt.Vars...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%+v: %s", q, step)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

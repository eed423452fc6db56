package sqlstore

import (
	"fmt"
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

// A session from another agenthost database comes with its feedback, also with later feedback. The
// target's own stays, and feedback outside the limits is left out.
func TestImportFeedback(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		source := sqliteFile(t)
		from, target := openStore(t, source, nil), openStore(t, url, nil)
		sess := createSession(t, from, alice, map[string]any{"k": 1})
		appendEvent(t, from, sess, textEvent("user", "hi"))
		save := func(s *testStore, caller string, score float64, comment string) {
			f := &store.Feedback{Invocation: "e-1", Caller: caller, Revision: "r1", Score: score, Comment: comment}
			mustSucceed(t, "saving feedback", s.Outcomes.SaveFeedback(t.Context(), alice, f))
		}
		read := func() *Import {
			r, err := allEngines().OpenReadOnly(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			imp := &Import{Key: alice}
			all, err := r.Sessions(t.Context())
			if err == nil {
				imp = all[0]
				err = r.Fill(t.Context(), imp, func(string, error) {})
			}
			mustSucceed(t, "reading the source", err)
			return imp
		}
		save(from, "bob", 1, "good \u00e9")
		rehearsal, err := allEngines().OpenImporter(t.Context(), sqliteFile(t), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "rehearsal", Imported{New: true, Events: 1, Keys: 1, Feedback: 1}, runImport(t, rehearsal, read()))
		mustSucceed(t, "closing the rehearsal", rehearsal.Close())
		i := openImporter(t, url)
		diff(t, "first import", Imported{New: true, Events: 1, Keys: 1, Feedback: 1}, runImport(t, i, read()))
		diff(t, "import of the same", Imported{Present: 1}, runImport(t, i, read()))
		save(target, "carol", -1, "mine")
		save(from, "carol", 1, "theirs")
		save(from, "dave", 0.25, "")
		execSQL(t, source, "INSERT INTO session_feedback (session_pk, invocation_id, caller, revision, score, comment, store_time) SELECT pk, 'e-1', 'eve', 'r1', 7000000, '', 1 FROM sessions")
		left := []string{"score must be from -1 to 1, got 7"}
		got := runImport(t, i, read())
		for j := range got.Left {
			got.Left[j], _, _ = strings.Cut(got.Left[j], ":")
		}
		diff(t, "import of new feedback", Imported{Present: 1, Feedback: 1, Left: left}, got)
		all, err := target.Outcomes.ListFeedback(t.Context(), alice)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, f := range all {
			texts = append(texts, fmt.Sprint(f.Invocation, " ", f.Caller, " ", f.Revision, " ", f.Score, " ", f.Comment))
		}
		diff(t, "feedback", []string{"e-1 bob r1 1 good \u00e9", "e-1 carol r1 -1 mine", "e-1 dave r1 0.25 "}, texts)
		imported, err := from.Outcomes.ListFeedback(t.Context(), alice)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "bob's time", imported[0].Stored, all[0].Stored)
	})
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

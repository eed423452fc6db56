package sqlstore

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"agenthost/internal/testdb"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// createCounted creates a session with a turn.
func createCounted(t *testing.T, s *testStore, key session.Key) {
	t.Helper()
	sess := createSession(t, s, key, nil)
	o := session.Outcome{Revision: "r1", Protocol: "run", Day: store.DayOf(time.Now()), Turns: 1}
	sess.Outcome = o.Append(nil)
	appendEvent(t, s, sess, textEvent("user", "secret words"))
}

// readKeptTurns returns how many turns of deleted sessions an app has.
func readKeptTurns(t *testing.T, s *testStore, app string) (turns int64) {
	t.Helper()
	mustSucceed(t, "reading days", s.Outcomes.EachDay(t.Context(), &store.KeptOutcomesRequest{App: app}, func(d *store.OutcomeDay) error {
		for _, o := range d.Totals {
			turns += o.Turns
		}
		return nil
	}))
	return turns
}

// A deletion whose response was lost has counted once.
func TestDeletedOutcomesLostResponse(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		for lost := range int64(9) {
			key := session.Key{App: string(rune('a' + lost)), User: "alice", ID: "s"}
			createCounted(t, s, key)
			p.deaf.Store(lost + 1)
			mustSucceed(t, "deleting", s.Delete(t.Context(), key, time.Hour))
			p.deaf.Store(0)
			diff(t, fmt.Sprint("turns with lost response ", lost), int64(1), readKeptTurns(t, s, key.App))
		}
	})
}

// After a deletion the database has neither the user nor the session nor its words. Control: before it, it has
// all of them.
func TestDeletedOutcomesAnonymous(t *testing.T) {
	for _, be := range backends()[2:4] {
		url := be.url(t)
		s := openStore(t, url, nil)
		key := session.Key{App: "app", User: "alice-of-wonderland", ID: "session-47"}
		createCounted(t, s, key)
		f := &store.Feedback{Invocation: "e-47", Caller: "caller-11", Revision: "r1", Score: 1, Comment: "private comment"}
		mustSucceed(t, "saving feedback", s.Outcomes.SaveFeedback(t.Context(), key, f))
		for _, there := range []bool{true, false} {
			if !there {
				mustSucceed(t, "deleting", s.Delete(t.Context(), key, time.Hour))
			}
			text, err := testdb.DumpDatabase(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range []string{key.User, key.ID, "e-47", "caller-11", "private comment", "secret words"} {
				if strings.Contains(text, word) != there {
					t.Errorf("the database has %q: %v, want %v", word, !there, there)
				}
			}
		}
		diff(t, "turns", int64(1), readKeptTurns(t, s, "app"))
	}
}

// A damaged day is a violation for db check, and keeps no session from being deleted: the day counts
// from 0, which the log reports.
func TestDeletedOutcomesDamaged(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		var log strings.Builder
		s := openStore(t, url, &store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		bob := session.Key{App: "app", User: "bob", ID: "s"}
		createCounted(t, s, alice)
		createCounted(t, s, bob)
		mustSucceed(t, "deleting", s.Delete(t.Context(), alice, time.Hour))
		for _, text := range []string{`{`, `[{"here": {"sessions": -1}}]`, `[{"outcome": "9"}]`, `[{"scores": 1, "scoreSum": 2}]`, "[" + strings.Repeat("{},", 64) + "{}]"} {
			err := s.db.writers[0].runWrite(t.Context(), func(w *writer) error { return w.orm.Exec("UPDATE outcome_days SET totals = ?", text).Error })
			mustSucceed(t, "damaging", err)
			v, err := allEngines().Verify(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			broken := ""
			for _, r := range v.Rules {
				if r.Broken > 0 {
					broken += r.Rule + ": " + strings.Join(r.Places, "; ")
				}
			}
			if !strings.HasPrefix(broken, `the outcomes of deleted sessions decode: app "app", day 2`) {
				t.Errorf("violations with %s: %q", text, broken)
			}
		}
		mustSucceed(t, "reading days", s.Outcomes.EachDay(t.Context(), &store.KeptOutcomesRequest{App: "app"}, func(d *store.OutcomeDay) error {
			diff(t, "damaged", true, d.Damaged)
			return nil
		}))
		mustSucceed(t, "deleting", s.Delete(t.Context(), bob, time.Hour))
		diff(t, "turns", int64(1), readKeptTurns(t, s, "app"))
		if !strings.Contains(log.String(), `msg="outcomes of deleted sessions are damaged and count from 0" app=app`) {
			t.Errorf("the log is %q", log.String())
		}
	})
}

// Outcomes of deleted sessions come over once. Those of a day that has others stay, and damaged ones are
// left out.
func TestImportOutcomeDays(t *testing.T) {
	source := sqliteFile(t)
	from := openStore(t, source, nil)
	for _, app := range []string{"app", "busy"} {
		key := session.Key{App: app, User: "alice", ID: "s"}
		createCounted(t, from, key)
		mustSucceed(t, "deleting", from.Delete(t.Context(), key, time.Hour))
	}
	err := from.db.writers[0].runWrite(t.Context(), func(w *writer) error {
		return w.orm.Create(&outcomeDayRow{App: "damaged", Day: 3, Totals: "{"}).Error
	})
	mustSucceed(t, "damaging", err)
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		for _, id := range []string{"a", "b"} {
			key := session.Key{App: "busy", User: "bob", ID: id}
			createCounted(t, host, key)
			mustSucceed(t, "deleting", host.Delete(t.Context(), key, time.Hour))
		}
		for _, first := range []bool{true, false} {
			r, err := allEngines().OpenReadOnly(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			mustSucceed(t, "reading days", r.OutcomeDays(t.Context(), func(d PackedOutcomeDay) error {
				got, err := i.OutcomeDay(t.Context(), d)
				want := map[string]Imported{"app": {New: true}, "busy": {Refused: "the day has other ones"}, "damaged": {Refused: "it is damaged"}}[d.App]
				if !first && d.App == "app" {
					want = Imported{Present: 1}
				}
				diff(t, "import of "+d.App, want, got)
				return err
			}))
		}
		for app, want := range map[string]int64{"app": 1, "busy": 2, "damaged": 0} {
			diff(t, "turns of "+app, want, readKeptTurns(t, host, app))
		}
	})
}

package sqlstore

import (
	"errors"
	"strings"
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// breakRows carries out a statement on the store's own connection, which uses its schema.
func breakRows(t *testing.T, s *testStore, text string) {
	t.Helper()
	w := s.db.writers[0]
	mustSucceed(t, text, w.runWrite(t.Context(), func(w *writer) error { return w.orm.Exec(text).Error }))
	s.dropCache()
}

// A stored row that does not decode, or is missing, is an error that names the session and the row.
// The caller is not at fault.
func TestDamagedRows(t *testing.T) {
	for _, tt := range []struct {
		name, damage, want string
		last               int // how many events are requested; 0 means all
	}{
		{"an event that is not JSON", "UPDATE events SET event = '{' WHERE seq = 2", `session app/alice/s is damaged: event 2: `, 0},
		{"an event of another form", `UPDATE events SET event = '{"author": 1}' WHERE seq = 2`, `session app/alice/s is damaged: event 2: `, 0},
		{"an event of another form, of the last two", `UPDATE events SET event = '{"author": 1}' WHERE seq = 2`, `session app/alice/s is damaged: event 2: `, 2},
		{"a value that is not JSON", "UPDATE states SET value = '{'", `session app/alice/s is damaged: state key "k": reading a state value: `, 0},
		{"the first event is missing", "DELETE FROM events WHERE seq = 1", "session app/alice/s is damaged: event 1: row is missing", 0},
		{"an event is missing", "DELETE FROM events WHERE seq = 2", "session app/alice/s is damaged: event 2: row is missing", 0},
		{"an event is missing, of the last two", "DELETE FROM events WHERE seq = 2", "session app/alice/s is damaged: event 2: row is missing", 2},
		{"an event is missing, of more than there are", "DELETE FROM events WHERE seq = 1", "session app/alice/s is damaged: event 1: row is missing", 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, url string) {
				s := openStore(t, url, nil)
				sess := createSession(t, s, alice, map[string]any{"k": 1})
				for range 3 {
					appendEvent(t, s, sess, textEvent("user", "hi"))
				}
				breakRows(t, s, tt.damage)
				var opts *store.GetOptions
				if tt.last > 0 {
					opts = &store.GetOptions{NumRecentEvents: &tt.last}
				}
				s.dropCache()
				_, err := s.Sessions.Get(t.Context(), alice, opts)
				if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, session.ErrInvalid) {
					t.Errorf("Get() = %v, want %q", err, tt.want)
				}
			})
		})
	}
}

// After the database is restored to an older state, as by the failover to a lagging
// standby, cached events that it lacks are not returned, and turns continue from the
// stored events.
func TestDatabaseRestoredFromOlderBackup(t *testing.T) {
	for _, tt := range []struct {
		name  string
		later []string // what another host stored instead
	}{
		{"shorter", nil},
		{"as long", []string{"other"}},
		{"longer", []string{"other", "more"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachDatabase(t, func(t *testing.T, url string) {
				s := openStore(t, url, nil)
				sess := createSession(t, s, alice, nil)
				appendEvent(t, s, sess, textEvent("user", "one"))
				appendEvent(t, s, sess, textEvent("user", "lost"))
				other := openStore(t, url, &store.Options{})
				w := other.db.writers[0]
				mustSucceed(t, "losing an event", w.runWrite(t.Context(), func(w *writer) error { return w.orm.Exec("DELETE FROM events WHERE seq = 2").Error }))
				want := []string{"one"}
				theirs := getSession(t, other, alice, nil)
				for _, text := range tt.later {
					appendEvent(t, other, theirs, textEvent("user", text))
					want = append(want, text)
				}
				got := getSession(t, s, alice, nil)
				diff(t, "texts", want, sessionTexts(got))
				appendEvent(t, s, got, textEvent("user", "on"))
				diff(t, "texts of the other", append(want, "on"), sessionTexts(getSession(t, other, alice, nil)))
			})
		})
	}
}

func sessionTexts(sess *session.Session) []string {
	var all []string
	for _, e := range sess.Events() {
		all = append(all, e.Content.Parts[0].Text)
	}
	return all
}

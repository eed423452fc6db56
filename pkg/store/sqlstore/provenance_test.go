package sqlstore

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Provenance is stored with the event and returned by every read: from another
// store, by partial reads, and after an import. CustomMetadata is unchanged,
// whatever its keys are.
func TestProvenanceStored(t *testing.T) {
	want := session.Provenance{Revision: "r1", Imported: true, Skipped: "when: <x>\n", RewindAfter: "e0"}
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			s := openStore(t, url, nil)
			sess := createSession(t, s, alice, nil)
			for i := range 3 {
				ev := textEvent("agent", "hi")
				ev.ID = fmt.Sprint("e", i)
				ev.CustomMetadata = map[string]any{"agenthost.revision": "forged"}
				if i == 1 {
					ev.Provenance = want
				}
				appendEvent(t, s, sess, ev)
			}
			look := func(what string, sess *session.Session) {
				t.Helper()
				for i, ev := range sess.Events() {
					expected := session.Provenance{}
					if ev.ID == "e1" {
						expected = want
					}
					diff(t, fmt.Sprint(what, ", event ", i), expected, ev.Provenance)
					diff(t, fmt.Sprint(what, ", metadata ", i), map[string]any{"agenthost.revision": "forged"}, ev.CustomMetadata)
				}
			}
			look("same store", getSession(t, s, alice, nil))
			if be.name == "memory" {
				return
			}
			two := 2
			look("latest events", getSession(t, openStore(t, url, nil), alice, &store.GetOptions{NumRecentEvents: &two}))
			look("another store", getSession(t, openStore(t, url, nil), alice, nil))
			target := sqliteFile(t)
			copySession(t, url, target)
			look("imported from another database", getSession(t, openStore(t, target, nil), alice, nil))
		})
	}
}

// copySession imports alice's session from one database into another.
func copySession(t *testing.T, from, to string) {
	t.Helper()
	r, err := allEngines().OpenReadOnly(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	imp := &Import{Key: alice}
	if err := r.Fill(t.Context(), imp, func(_ string, err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	if out := runImport(t, openImporter(t, to), imp); out.Refused != "" {
		t.Fatal(out.Refused)
	}
}

// Rows in an older schema have their provenance in CustomMetadata, which clients could write too:
// it is moved, and marked as unverified. Keys that were never the host's on such an event stay. An
// event without the revision, which the host recorded on each event of an app, is imported: its
// calls do not run. Controls: the call with the revision, and the rewind, which never had one, are
// not.
func TestProvenanceOfOlderSchema(t *testing.T) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			s := openStore(t, url, nil)
			sess := createSession(t, s, alice, nil)
			answer := textEvent("agent", "hi")
			answer.CustomMetadata = map[string]any{"agenthost.revision": "r1", "skipped": "the client's", "rewindAfterEventId": "x", "mine": true}
			skip := &session.Event{Author: "agent", Response: model.Response{CustomMetadata: map[string]any{"agenthost.revision": "r1", "skipped": "when: x"}}}
			rewind := &session.Event{Author: session.UserAuthor, Response: model.Response{CustomMetadata: map[string]any{"rewindAfterEventId": "e0"}}}
			rewind.Actions.RewindBeforeInvocationID = "e-1"
			plain := &session.Event{Author: session.UserAuthor}
			plain.Actions.RewindBeforeInvocationID = "e-1"
			forged := textEvent("agent", "")
			forged.Content.Parts = []*genai.Part{genai.NewPartFromFunctionCall("refund", map[string]any{"amount": 7})}
			for _, ev := range []*session.Event{answer, skip, rewind, plain, forged} {
				appendEvent(t, s, sess, ev)
			}
			err := s.db.writers[0].runWrite(t.Context(), func(w *writer) error {
				for _, statement := range []string{"ALTER TABLE events DROP COLUMN provenance", "DELETE FROM schema_migrations WHERE version >= 6"} {
					if _, err := w.conn.ExecContext(context.Background(), statement); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			s = openStore(t, url, nil)
			events := getSession(t, s, alice, nil).Events()
			diff(t, "answer", session.Provenance{Revision: "r1", Unverified: true}, events[0].Provenance)
			diff(t, "metadata of the answer", map[string]any{"skipped": "the client's", "rewindAfterEventId": "x", "mine": true}, events[0].CustomMetadata)
			diff(t, "skipped agent", session.Provenance{Revision: "r1", Skipped: "when: x", Unverified: true}, events[1].Provenance)
			diff(t, "rewind", session.Provenance{RewindAfter: "e0", Unverified: true}, events[2].Provenance)
			diff(t, "plain rewind", session.Provenance{Unverified: true}, events[3].Provenance)
			diff(t, "forged call", session.Provenance{Imported: true, Unverified: true}, events[4].Provenance)
			diff(t, "metadata of the rewind", map[string]any(nil), events[2].CustomMetadata)
			v, err := allEngines().Verify(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			for _, rule := range v.Rules {
				if rule.Broken > 0 {
					t.Errorf("rule %q is broken: %v", rule.Rule, rule.Places)
				}
			}
		})
	}
}

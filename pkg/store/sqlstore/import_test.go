package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// newImport is another database's session with n events.
func newImport(n int) *Import {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	imp := &Import{Key: alice, Created: at, State: map[string]any{"n": n}}
	for i := range n {
		ev := textEvent("user", fmt.Sprint(i))
		ev.ID, ev.Timestamp = fmt.Sprint("e", i), at.Add(time.Duration(i)*time.Second)
		imp.Events = append(imp.Events, ev)
	}
	return imp
}

func openImporter(t *testing.T, url string) *Importer {
	t.Helper()
	i, err := allEngines().OpenImporter(t.Context(), url, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

func runImport(t *testing.T, i *Importer, imp *Import) Imported {
	t.Helper()
	out, err := i.Session(t.Context(), imp)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// An import never writes into a session that a host runs, and takes it once it
// is free.
func TestImportDuringRun(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		diff(t, "a new session", Imported{New: true, Events: 2, Keys: 1}, runImport(t, i, newImport(2)))
		release := acquire(t, host.Sessions, alice)
		diff(t, "a session that is run", Imported{Refused: "it has an active run: import it again later"}, runImport(t, i, newImport(5)))
		diff(t, "one that has nothing new", Imported{Present: 2}, runImport(t, i, newImport(2)))
		if n := getSession(t, host, alice, nil).Version; n != 2 {
			t.Errorf("%d events are there, want 2", n)
		}
		release()
		diff(t, "the same, afterwards", Imported{Present: 2, Events: 3, Keys: 1}, runImport(t, i, newImport(5)))
		sess := getSession(t, host, alice, nil)
		if sess.Version != 5 || sess.Events()[4].ID != "e4" {
			t.Errorf("%d events are there, want 5", sess.Version)
		}
		diff(t, "state", map[string]any{"n": int64(5)}, sess.State.All())
	})
}

// A lease that was taken over between the import's look and its writing, or a
// session that came to be in between, keeps it from writing anything.
func TestImportFenced(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		runImport(t, i, newImport(2))
		p := &importPlan{Import: newImport(5), state: map[string]any{"n": 5}}
		if err := i.comparePlan(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		p.lease = store.LeaseGrant{Key: alice, ID: p.pk, Epoch: 7, Term: time.Second, Now: time.Now()}
		wantErr(t, "writing under an old lease", i.backend.importSession(t.Context(), p), session.ErrFenced, "")
		p.pk = 0
		wantErr(t, "making a session that is there", i.backend.importSession(t.Context(), p), session.ErrExists, "")
		if n := getSession(t, host, alice, nil).Version; n != 2 {
			t.Errorf("%d events are there, want 2", n)
		}
	})
}

// Many events, and large ones, come over whole; those that are in the way undo
// all that was written before them.
func TestImportAtomic(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		imp := newImport(2*rowsAtOnce + 7)
		imp.Events[3].Content.Parts[0].Text = strings.Repeat("x", 2*packetBytes)
		imp.Events[rowsAtOnce+1].ID = "e1"
		if out := runImport(t, i, imp); out.Refused == "" {
			t.Errorf("events of one id were taken: %+v", out)
		}
		_, err := host.Sessions.Get(t.Context(), alice, nil)
		wantErr(t, "Get of what was undone", err, session.ErrNotFound, "")
		imp.Events[rowsAtOnce+1].ID = "other"
		diff(t, "afterwards", Imported{New: true, Events: len(imp.Events), Keys: 1}, runImport(t, i, imp))
		if n := getSession(t, host, alice, nil).History.Len(); n != len(imp.Events) {
			t.Errorf("%d events are there, want %d", n, len(imp.Events))
		}
	})
}

// Existing app and user keys are kept and reported.
func TestImportKeepsSharedKeys(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		createSession(t, host, alice, map[string]any{"app:a": 1, "app:b": 2})
		out, err := i.States(t.Context(), "app", "", map[string]any{"a": 1, "b": 3, "c": 4})
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "report", Imported{Keys: 1, Present: 1, Left: []string{`state key "b": exists with another value`}}, out)
		diff(t, "state", map[string]any{"app:a": int64(1), "app:b": int64(2), "app:c": int64(4)}, getSession(t, host, alice, nil).State.All())
	})
}

// Whichever server response is lost, a session is imported once, and the import reports success.
func TestImportRetryAfterLostResponse(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		i := openImporter(t, url)
		for lost := range int64(8) {
			imp := newImport(3)
			imp.Key.ID = fmt.Sprint(lost)
			p.deaf.Store(lost + 1)
			diff(t, fmt.Sprint("a new session, answer ", lost), Imported{New: true, Events: 3, Keys: 1}, runImport(t, i, imp))
			more := newImport(5)
			more.Key = imp.Key
			p.deaf.Store(lost + 1)
			diff(t, fmt.Sprint("a grown one, answer ", lost), Imported{Present: 3, Events: 2, Keys: 1}, runImport(t, i, more))
			p.deaf.Store(0)
		}
	})
}

// App revisions come over byte for byte, once.
func TestImportRevisions(t *testing.T) {
	source := sqliteFile(t)
	storeRevision(t, openStore(t, source, nil), "app", "abc1", 20)
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		for _, written := range []bool{true, false} {
			r, err := allEngines().OpenReadOnly(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			err = r.Revisions(t.Context(), func(rev PackedRevision) error {
				got, err := i.Revision(t.Context(), rev)
				diff(t, "written", written, got)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		rev, err := host.Revisions.Get(t.Context(), "app", "abc1")
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "files", map[string][]byte{"root_agent.yaml": []byte("name: abc1"), "prompts/x.md": {0, 255}}, rev.Files)
	})
}

// Results of evaluations come over byte for byte, once.
func TestImportResults(t *testing.T) {
	source := sqliteFile(t)
	saved := &store.Result{App: "app", ID: "app_orders_1.5", SetID: "orders", Revision: "r", Model: "m", Content: []byte(`{"a": 1}`)}
	if err := openStore(t, source, nil).Results.Save(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	eachDatabase(t, func(t *testing.T, url string) {
		host, i := openStore(t, url, nil), openImporter(t, url)
		for _, written := range []bool{true, false} {
			r, err := allEngines().OpenReadOnly(t.Context(), source)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			err = r.Results(t.Context(), func(result PackedResult) error {
				got, err := i.Result(t.Context(), result)
				diff(t, "written", written, got)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		got, err := host.Results.Get(t.Context(), "app", saved.ID)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "content", string(saved.Content), string(got.Content))
		diff(t, "set, revision and model", "orders r m", got.SetID+" "+got.Revision+" "+got.Model)
	})
}

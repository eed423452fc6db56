package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testdb"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/sqlstore/mysql"
	"agenthost/pkg/store/sqlstore/postgres"
	"agenthost/pkg/store/sqlstore/sqlite"
)

// A testBackend is a row in the table that all engines' tests run over.
type testBackend struct {
	name string
	url  func(t testing.TB) string
}

// allEngines returns the engines with all tests' drivers.
func allEngines() Engines { return Engines{sqlite.Engine(), postgres.Engine(), mysql.Engine()} }

func backends() []testBackend {
	return []testBackend{
		{"memory", func(testing.TB) string { return "memory:" }},
		{"sqlite", sqliteFile},
		{"postgres", postgresSchema},
		{"mysql", mysqlDatabase},
		{"pgbouncer", poolerSchema},
	}
}

// emptyURL returns a function that returns an empty database's URL. Tables on a server take about a
// second to create, so there its databases are one, whose rows it deletes: the tests that use them
// must not run at the same time.
func (be testBackend) emptyURL(t *testing.T) func(testing.TB) string {
	if be.name == "memory" || be.name == "sqlite" {
		return be.url
	}
	shared := be.url(t)
	db := openStore(t, shared, nil).db
	return func(t testing.TB) string {
		t.Helper()
		for _, table := range tableNames() {
			if _, err := db.writes.ExecContext(t.Context(), "DELETE FROM "+table); err != nil {
				t.Fatal(err)
			}
		}
		return shared
	}
}

// eachDatabase runs a test on an empty database for each engine.
func eachDatabase(t *testing.T, test func(t *testing.T, url string)) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) { test(t, be.url(t)) })
	}
}

// A testStore is a store with its database, which is nil in memory.
type testStore struct {
	*store.Store
	db       *Database
	backends *store.Backends
	opts     store.Options
}

func openStore(t testing.TB, url string, opts *store.Options) *testStore {
	t.Helper()
	s := &testStore{}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Owner = store.NewOwner()
	s.backends = memstore.NewBackends()
	if url != "memory:" {
		var err error
		if s.db, err = allEngines().Open(t.Context(), url, &Options{Owner: s.opts.Owner, Clock: s.opts.Clock, Logger: s.opts.Logger}); err != nil {
			t.Fatal(err)
		}
		s.backends = s.db.Backends()
		s.backends.Artifacts = memstore.NewArtifacts()
	}
	s.Store = store.New(s.backends, &s.opts)
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// dropCache replaces the store by one with an empty cache over the same database.
func (s *testStore) dropCache() { s.Store = store.New(s.backends, &s.opts) }

func engineByName(name string) testdb.Engine {
	i := slices.IndexFunc(testdb.Engines(), func(e testdb.Engine) bool { return e.Name == name })
	return testdb.Engines()[i]
}

// engineURL is an answering server's URL; without one the test is skipped.
func engineURL(t testing.TB, engine string) *url.URL {
	t.Helper()
	u, err := engineByName(engine).Server(t.Context())
	skipAbsent(t, err)
	return u
}

func skipAbsent(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, testdb.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newDatabase is the URL for a database that is dropped when the test ends.
func newDatabase(t testing.TB, engine string) string {
	t.Helper()
	at, drop, err := engineByName(engine).Fresh(t.Context(), t.TempDir())
	skipAbsent(t, err)
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	return at
}

func sqliteFile(t testing.TB) string { return newDatabase(t, "sqlite") }

func postgresSchema(t testing.TB) string { return newDatabase(t, "postgres") }

// poolerSchema is a schema behind a pooler with few connections to its server.
func poolerSchema(t testing.TB) string { return startPooler(t, postgresSchema(t), 3) }

func mysqlDatabase(t testing.TB) string { return newDatabase(t, "mysql") }

// execSQL executes SQL statements without the store.
func execSQL(t testing.TB, url, text string) {
	t.Helper()
	if err := testdb.Exec(t.Context(), url, text); err != nil {
		t.Fatal(err)
	}
}

// startPooler returns a PostgreSQL database's URL behind a PgBouncer with transaction pooling.
func startPooler(t testing.TB, at string, size int) string {
	t.Helper()
	p, err := testdb.StartPooler(t.Context(), engineURL(t, "postgres"), t.TempDir(), size)
	if errors.Is(err, testdb.ErrNoPooler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	through, err := p.Through(at)
	if err != nil {
		t.Fatal(err)
	}
	return through
}

// cleanUp executes a statement after the test, whose context has ended.
func cleanUp(t testing.TB, url, text string) {
	t.Helper()
	if err := testdb.Exec(context.Background(), url, text); err != nil {
		t.Error(err)
	}
}

func textEvent(author, text string) *session.Event {
	content := model.UserText(text)
	if author != session.UserAuthor {
		content = model.ModelText(text)
	}
	return &session.Event{InvocationID: "e-1", Author: author, Response: model.Response{Content: content}}
}

// plainState is a session as values that cmp can compare.
func plainState(t *testing.T, s *session.Session) map[string]any {
	t.Helper()
	if s == nil {
		t.Fatal("no session")
	}
	var events []string
	for _, e := range s.Events() {
		events = append(events, eventText(t, e))
	}
	return map[string]any{"key": s.Key, "version": s.Version, "state": s.State.All(), "events": events, "updated": s.LastUpdate.UnixMicro()}
}

func eventText(t testing.TB, e *session.Event) string {
	t.Helper()
	text, err := session.AppendEvent(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(e.Seq, " ", string(text))
}

func createSession(t testing.TB, s *testStore, key session.Key, state map[string]any) *session.Session {
	t.Helper()
	sess, err := s.Sessions.Create(t.Context(), key, state)
	if err != nil {
		t.Fatalf("Create(%v) = %v", key, err)
	}
	return sess
}

func getSession(t testing.TB, s *testStore, key session.Key, o *store.GetOptions) *session.Session {
	t.Helper()
	sess, err := s.Sessions.Get(t.Context(), key, o)
	if err != nil {
		t.Fatalf("Get(%v) = %v", key, err)
	}
	return sess
}

func appendEvent(t testing.TB, s *testStore, sess *session.Session, ev *session.Event) *session.Event {
	t.Helper()
	if err := s.Sessions.Append(t.Context(), sess, ev); err != nil {
		t.Fatalf("Append(%v) = %v", sess.Key, err)
	}
	return ev
}

// stateEvent is an event that only changes the state.
func stateEvent(delta map[string]any) *session.Event {
	ev := &session.Event{InvocationID: "e-1", Author: "agent"}
	ev.Actions.StateDelta = delta
	return ev
}

func wantErr(t testing.TB, what string, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want %v with %q", what, err, want, text)
	}
}

func diff(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func closeStore(t testing.TB, s *testStore) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

func textPart(s string) *genai.Part { return &genai.Part{Text: s} }

func acquire(t *testing.T, s *store.Sessions, key session.Key) func() {
	t.Helper()
	_, release, err := s.Acquire(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatalf("Acquire(%v) = %v", key, err)
	}
	return release
}

var alice = session.Key{App: "app", User: "alice", ID: "s"}

// eventAtMinute returns a text event at a minute of the day.
func eventAtMinute(id, author, text string, minute int) *session.Event {
	ev := textEvent(author, text)
	ev.ID, ev.Timestamp = id, time.Date(2026, 11, 21, 10, minute, 0, 0, time.UTC)
	return ev
}

func newSession(key session.Key, events ...*session.Event) *session.Session {
	return &session.Session{Key: key, History: session.NewHistory(events), State: session.NewState(nil)}
}

func addToMemory(t testing.TB, s *testStore, sess *session.Session) {
	t.Helper()
	if err := s.Memories.AddSession(t.Context(), sess); err != nil {
		t.Fatalf("AddSession(%v) = %v", sess.Key, err)
	}
}

func addEvents(t testing.TB, s *testStore, key session.Key, events ...*session.Event) {
	t.Helper()
	if err := s.Memories.AddEvents(t.Context(), key, events); err != nil {
		t.Fatalf("AddEvents(%v) = %v", key, err)
	}
}

// searchText are the texts that a query finds, joined by bars.
func searchText(t testing.TB, s *testStore, key session.Key, query string) string {
	t.Helper()
	return searchSessions(t, s, key, store.MemoryQuery{Text: query})
}

// runConcurrently runs n goroutines and reports their errors.
func runConcurrently(t *testing.T, n int, run func(i int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := run(i); err != nil {
				t.Errorf("goroutine %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func storeRevision(t testing.TB, s *testStore, app, id string, keep int) {
	t.Helper()
	rev := &store.Revision{App: app, ID: id, Files: map[string][]byte{"root_agent.yaml": []byte("name: " + id), "prompts/x.md": {0, 255}}}
	if err := s.Revisions.Put(t.Context(), rev, keep); err != nil {
		t.Fatalf("Put(%s) = %v", id, err)
	}
}

func saveText(t *testing.T, s *testStore, key session.Key, name string) {
	t.Helper()
	if _, err := s.Artifacts.Save(t.Context(), key, name, textPart("text")); err != nil {
		t.Fatal(err)
	}
}

func searchSessions(t testing.TB, s *testStore, key session.Key, q store.MemoryQuery) string {
	t.Helper()
	ms, err := s.Memories.Search(t.Context(), key.App, key.User, q)
	if err != nil {
		t.Fatalf("Search(%q) = %v", q.Text, err)
	}
	var texts []string
	for _, m := range ms {
		texts = append(texts, m.Text())
	}
	return strings.Join(texts, "|")
}

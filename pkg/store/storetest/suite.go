// Package storetest is the conformance suite for session and artifact backends: package store's
// rules, run over a backend. The tests of memstore, sqlstore, dirstore and bucketstore run it; so
// can those for a backend outside this module.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// A Database opens one store's backends. Each call opens another store on the same data, like
// replicas. Options.Owner is set. Nil artifacts, memories, revisions and results are kept in
// memory; their tests do not run.
type Database func(ctx context.Context, o *store.Options) (*store.Backends, error)

// A Suite tests a session backend kind.
type Suite struct {
	// Create creates an empty database.
	Create func(t testing.TB) Database
	// Durable reports that the data outlives the last store.
	Durable bool
	// LocalClock reports that leases end by the process's clock, and that the backend works in a
	// testing/synctest bubble.
	LocalClock bool
	// Impossible has the session backend tests that do not run, with the reason why the backend
	// cannot follow the rule. An unknown name is an error.
	Impossible map[string]string
}

func (su *Suite) runTests(t *testing.T, tests map[string]func(*testing.T)) {
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		if su.Impossible[name] == "" {
			t.Run(name, tests[name])
		}
	}
}

// A testStore is a store whose backend can be stopped, as in a dead process.
type testStore struct {
	*store.Store
	backends *store.Backends
	sessions *stoppableBackend
	opts     store.Options
	owner    string
}

// A stoppableBackend renews and releases no lease once it is stopped, and records the leases
// that it has granted.
type stoppableBackend struct {
	store.SessionBackend
	stopped atomic.Bool

	mu     sync.Mutex
	grants map[session.Key]store.LeaseGrant
}

func (m *stoppableBackend) AcquireLease(ctx context.Context, g *store.LeaseGrant) (string, error) {
	holder, err := m.SessionBackend.AcquireLease(ctx, g)
	if err == nil && holder == "" {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.grants[g.Key] = *g
	}
	return holder, err
}

func (m *stoppableBackend) RenewLeases(ctx context.Context, all []*store.LeaseGrant) ([]*store.LeaseGrant, error) {
	if m.stopped.Load() {
		return nil, nil
	}
	return m.SessionBackend.RenewLeases(ctx, all)
}

func (m *stoppableBackend) ReleaseLeases(ctx context.Context, all []*store.LeaseGrant) error {
	if m.stopped.Load() {
		return nil
	}
	return m.SessionBackend.ReleaseLeases(ctx, all)
}

// lastGrant returns the last lease that this store has acquired for a session.
func (m *stoppableBackend) lastGrant(key session.Key) store.LeaseGrant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.grants[key]
}

func (m *stoppableBackend) countGrants() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.grants)
}

// openStore opens another store on a database. The test closes it.
func openStore(t testing.TB, db Database, opts *store.Options) *testStore {
	t.Helper()
	s := &testStore{}
	if opts != nil {
		s.opts = *opts
	}
	s.owner = store.NewOwner()
	s.opts.Owner = s.owner
	b, err := db(t.Context(), &s.opts)
	if err != nil {
		t.Fatal(err)
	}
	c := *b
	if c.Artifacts == nil {
		c.Artifacts = memstore.NewArtifacts()
	}
	if c.Memories == nil {
		c.Memories = memstore.NewMemories()
	}
	if c.Revisions == nil {
		c.Revisions = memstore.NewRevisions()
	}
	if c.Results == nil {
		c.Results = memstore.NewResults()
	}
	s.sessions = &stoppableBackend{SessionBackend: c.Sessions, grants: map[session.Key]store.LeaseGrant{}}
	c.Sessions, s.backends = s.sessions, &c
	s.Store = store.New(s.backends, &s.opts)
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// dropCache replaces the store by one with an empty cache over the same backends.
func (s *testStore) dropCache() { s.Store = store.New(s.backends, &s.opts) }

// open opens a store on an empty database.
func (su *Suite) open(t testing.TB, opts *store.Options) *testStore {
	t.Helper()
	return openStore(t, su.Create(t), opts)
}

// openReplicas opens stores that share their sessions, as hosts on one database do.
func (su *Suite) openReplicas(t testing.TB, n int, opts *store.Options) []*testStore {
	t.Helper()
	db := su.Create(t)
	all := make([]*testStore, n)
	for i := range all {
		all[i] = openStore(t, db, opts)
	}
	return all
}

func (su *Suite) openPair(t testing.TB) (a, b *testStore) {
	t.Helper()
	all := su.openReplicas(t, 2, nil)
	return all[0], all[1]
}

// runTimedPair runs a test on a pair, with a clock that advances when all goroutines wait.
func (su *Suite) runTimedPair(t *testing.T, test func(t *testing.T, a, b *testStore)) {
	if !su.LocalClock {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		a, b := su.openPair(t)
		test(t, a, b)
	})
}

// alice is the session in most tests.
var alice = session.Key{App: "app", User: "alice", ID: "s"}

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

func wantEqual(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// wantedError is an expected error and part of its text.
type wantedError struct {
	is   error
	text string
}

func wantErr(t testing.TB, what string, err error, want wantedError) {
	t.Helper()
	if !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.text) {
		t.Errorf("%s = %v, want %v with %q", what, err, want.is, want.text)
	}
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

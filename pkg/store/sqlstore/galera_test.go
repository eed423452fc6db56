package sqlstore

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"agenthost/internal/testdb"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// A Galera cluster at a proxy that connects to one node after the other passes the store's suite. A read
// waits for what another node has committed, two stores on different nodes share sessions, and a node that is killed
// loses nothing that was acknowledged. A node that is left without a majority is an unavailable database.
func TestGalera(t *testing.T) {
	dir, err := os.MkdirTemp("", "galera")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // the nodes run as another user
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	g, err := testdb.StartGalera(ctx, dir, 3)
	skipAbsent(t, err)
	defer func() { mustSucceed(t, "stopping the cluster", g.Stop()) }()
	proxy, err := g.NewRoundRobin()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { mustSucceed(t, "closing the proxy", proxy.Close()) }()
	for _, name := range []string{"suite", "new", "own", "killed"} {
		mustSucceed(t, "creating a database", testdb.Exec(ctx, g.URL(0, "mysql"), "CREATE DATABASE "+name))
	}
	t.Run("suite", func(t *testing.T) {
		empty := testBackend{"galera", func(testing.TB) string { return proxy.URL("suite") }}.emptyURL(t)
		newSuite(empty, false).Run(t)
	})
	t.Run("migrated at once", func(t *testing.T) { testGaleraMigrations(t, g) })
	t.Run("reads wait", func(t *testing.T) { testGaleraReads(t, g) })
	t.Run("killed node", func(t *testing.T) { testGaleraKill(t, g, proxy) })
	t.Run("no quorum", func(t *testing.T) { testGaleraQuorum(t, g) })
}

// testGaleraMigrations opens an empty database on all nodes at once: each migrates it or waits.
func testGaleraMigrations(t *testing.T, g *testdb.Galera) {
	results := make(chan error, 3)
	for node := range cap(results) {
		go func() {
			d, err := allEngines().Open(t.Context(), g.URL(node, "new"), nil)
			if err == nil {
				err = d.Close()
			}
			results <- err
		}()
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

// testGaleraReads stops a node from applying what others write: a plain read finds an older state there, and the store's
// read waits for the newer one.
func testGaleraReads(t *testing.T, g *testdb.Galera) {
	first, second := openStore(t, g.URL(0, "own"), nil), openStore(t, g.URL(1, "own"), nil)
	sess := createSession(t, first, alice, nil)
	appendEvent(t, first, sess, textEvent("user", "one"))
	diff(t, "texts on the other node", []string{"one"}, sessionTexts(getSession(t, second, alice, nil)))

	db, err := testdb.Open(g.URL(1, "own"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	locked, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	if _, err := locked.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK"); err != nil {
		t.Fatal(err)
	}
	appendEvent(t, first, sess, textEvent("user", "two"))
	var plain int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM events").Scan(&plain); err != nil || plain != 1 {
		t.Errorf("control: a plain read on the node finds %d events, want the older state with 1: %v", plain, err)
	}
	read := make(chan []string, 1)
	go func() {
		got, err := second.Sessions.Get(t.Context(), alice, nil)
		if err != nil {
			read <- []string{err.Error()}
			return
		}
		read <- sessionTexts(got)
	}()
	if _, err := locked.ExecContext(t.Context(), "UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	diff(t, "texts after the wait", []string{"one", "two"}, <-read)
}

// testGaleraKill kills a node while two stores at the proxy take turns in one session. The others do not answer
// until they have agreed that it is gone, so a turn may fail, and is sent again.
func testGaleraKill(t *testing.T, g *testdb.Galera, proxy *testdb.RoundRobin) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stores := []*testStore{openStore(t, proxy.URL("killed"), nil), openStore(t, proxy.URL("killed"), nil)}
	createSession(t, stores[0], alice, nil)
	acknowledged, failed, killed := []string{}, 0, false
	for turns := 0; len(acknowledged) < 60; turns++ {
		if len(acknowledged) == 30 && !killed {
			killed = true
			mustSucceed(t, "killing a node", g.Kill(2))
		}
		ev := textEvent("user", "turn")
		err := appendTurn(ctx, stores[turns%2], ev)
		if err == nil {
			acknowledged = append(acknowledged, ev.ID)
			continue
		}
		failed++
		if len(acknowledged) < 30 || errors.Is(err, session.ErrStale) {
			t.Fatalf("turn %d: %v", turns, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d turns after the kill failed, the last: %v", failed, err)
		}
	}
	stored := map[string]bool{}
	for _, ev := range getSession(t, openStore(t, g.URL(0, "killed"), nil), alice, nil).Events() {
		stored[ev.ID] = true
	}
	for _, id := range acknowledged {
		if !stored[id] {
			t.Errorf("acknowledged event %s is lost", id)
		}
	}
}

// testGaleraQuorum kills all nodes but one, which rejects reads and writes once it has found that it is alone: until then
// and afterwards, they fail as those of an unavailable database, which clients may send again.
func testGaleraQuorum(t *testing.T, g *testdb.Galera) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, err := allEngines().Open(ctx, g.URL(0, "own"), nil)
	if err != nil {
		t.Fatal(err)
	}
	backends := d.Backends()
	backends.Artifacts = memstore.NewArtifacts()
	s := &testStore{Store: store.New(backends, &store.Options{})}
	defer s.Close() // it may fail: the database is unavailable
	mustSucceed(t, "a turn before", appendTurn(ctx, s, textEvent("user", "before")))
	mustSucceed(t, "killing a node", g.Kill(1))
	for rejected := map[string]int{}; rejected["read"] < 3 || rejected["append"] < 3; {
		_, readErr := s.Sessions.Get(ctx, alice, nil)
		for name, err := range map[string]error{"read": readErr, "append": appendTurn(ctx, s, textEvent("user", "after"))} {
			if err == nil {
				continue
			}
			if rejected[name]++; !errors.Is(err, session.ErrUnavailable) {
				t.Fatalf("%s: %v, want an unavailable store", name, err)
			}
		}
	}
}

// appendTurn appends an event in a run of its own.
func appendTurn(ctx context.Context, s *testStore, ev *session.Event) error {
	_, release, err := s.Sessions.Acquire(ctx, alice, 10*time.Second)
	if err != nil {
		return err
	}
	defer release()
	sess, err := s.Sessions.Get(ctx, alice, nil)
	if err != nil {
		return err
	}
	return s.Sessions.Append(ctx, sess, ev)
}

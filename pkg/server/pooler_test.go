package server_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"

	"agenthost/internal/testdb"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// startPooler starts a PgBouncer in transaction mode for an empty PostgreSQL schema. It
// returns the URL and a function that terminates the pooler's server connections.
func startPooler(t *testing.T) (at string, kill func() error) {
	t.Helper()
	engine := testdb.Engines()[1]
	direct, drop, err := engine.Fresh(t.Context(), t.TempDir())
	if errors.Is(err, testdb.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(direct)
	if err != nil {
		t.Fatal(err)
	}
	p, err := testdb.StartPooler(t.Context(), u, t.TempDir(), 3)
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
	name := u.Query().Get("search_path")
	if at, err = p.Through(direct); err != nil {
		t.Fatal(err)
	}
	return at + "&application_name=" + name, func() error {
		return testdb.Exec(t.Context(), direct, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+name+"'")
	}
}

// newReplica returns a server with its own host on a shared database.
func newReplica(t *testing.T, at string) *env {
	t.Helper()
	st, err := store.Open(t.Context(), at, &store.Options{Artifacts: "memory:"})
	if err != nil {
		t.Fatal(err)
	}
	host := runtime.NewHost(st, nil)
	t.Cleanup(func() {
		host.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &env{host, st, server.New(host, nil)}
}

// Two replicas share a PgBouncer in transaction mode without special URL parameters.
// Each conversation alternates between the replicas while server connections are
// terminated: every turn succeeds and is stored once.
func TestReplicasWithPgBouncer(t *testing.T) {
	const conversations, turns = 4, 8
	at, kill := startPooler(t)
	replicas := []*env{newReplica(t, at), newReplica(t, at)}
	for _, e := range replicas {
		e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	}
	var wg sync.WaitGroup
	for i := range conversations {
		id := fmt.Sprint("s", i)
		replicas[0].createSession(t, "hello", id)
		wg.Go(func() {
			for n := range turns {
				if i == 0 && n%3 == 1 {
					if err := kill(); err != nil {
						t.Error(err)
					}
				}
				if w := replicas[n%2].serve("POST", "/run", runBody("hello", id, "count")); w.Code != 200 {
					t.Errorf("turn %d of %s: %d %s", n, id, w.Code, w.Body)
				}
			}
		})
	}
	wg.Wait()
	for i := range conversations {
		key := session.Key{App: "hello", User: "u", ID: fmt.Sprint("s", i)}
		want := strings.TrimSuffix(strings.Repeat("user hello ", turns), " ")
		for n, e := range replicas {
			if got := e.eventAuthors(t, key); got != want {
				t.Errorf("replica %d: events of %s are by %s, want %s", n, key.ID, got, want)
			}
		}
	}
}

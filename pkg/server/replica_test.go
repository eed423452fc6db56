package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/internal/servertest"
	"agenthost/internal/testdb"
	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

func openReplica(t *testing.T, url string, clock func() time.Time) *store.Sessions {
	t.Helper()
	st, err := storeurl.Open(t.Context(), url, &storeurl.Options{Schemes: testenv.Schemes(), Options: store.Options{Clock: clock}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st.Sessions
}

// A session in use on another replica is reported as busy.
func TestSessionBusyOnOtherReplica(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	e := newEnvOn(t, url, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	key := e.createSession(t, "hello", "s")
	_, release, err := openReplica(t, url, time.Now).Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	w := e.serve("POST", "/run", runBody("hello", "s", "x"))
	expectResponse(t, w, 409, `{"detail":"session s is busy with another run, retry later"}`)
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
}

// Two replicas create a session on first use at the same time. The second run waits for
// the session instead of failing because it already exists.
func TestSessionCreatedOnOtherReplica(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	key := session.Key{App: "hello", User: "u", ID: "s"}
	other := openReplica(t, url, time.Now)
	release := func() {}
	first := func() {
		if _, err := other.Create(t.Context(), key, nil); err != nil {
			t.Error(err)
		}
		var err error
		if _, release, err = other.Acquire(t.Context(), key, 0); err != nil {
			t.Error(err)
		}
	}
	// The store reads the clock when it reads the session, and again when it creates
	// the missing session.
	var clockReads atomic.Int64
	clock := func() time.Time {
		if clockReads.Add(1) == 2 {
			first()
		}
		return time.Now()
	}
	e := newEnvWith(t, url, &store.Options{Clock: clock}, &server.Options{AutoCreateSession: true})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	w := e.serve("POST", "/run", runBody("hello", "s", "x"))
	expectResponse(t, w, 409, `{"detail":"session s is busy with another run, retry later"}`)
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
	release()
	if err := other.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if w := e.serve("POST", "/run", runBody("hello", "s", "x")); w.Code != 200 {
		t.Errorf("status %d, want 200: %s", w.Code, w.Body)
	}
}

// A run whose session lease was taken over fails at its next event, and the client can
// retry.
func TestLeaseTakenOver(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	e := newEnvOn(t, url, nil)
	key := e.createSession(t, "hello", "s")
	later := openReplica(t, url, func() time.Time { return time.Now().Add(time.Hour) })
	e.addFuncApp(t, "hello", func(_ context.Context, emit emitFunc) error {
		emit("one")
		_, release, err := later.Acquire(t.Context(), key, 0)
		if err != nil {
			t.Error(err)
			return err
		}
		defer release()
		emit("two")
		return nil
	})
	const message = "session s was taken over by another host during this turn: stored events are kept, retry later"
	w := e.serve("POST", "/run", runBody("hello", "s", "x"))
	expectResponse(t, w, 409, `{"detail":"`+message+`"}`)
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
	if got := e.eventAuthors(t, key); got != "user hello" {
		t.Errorf("stored events are by %s, want user hello", got)
	}
}

// A run that stores nothing for a while is canceled when its lease is taken over, and
// the client receives the reason.
func TestLeaseTakenOverDuringWait(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	e := newLeasedEnv(t, url, 300*time.Millisecond)
	key := e.createSession(t, "hello", "s")
	later := openReplica(t, url, func() time.Time { return time.Now().Add(time.Hour) })
	e.addFuncApp(t, "hello", func(ctx context.Context, emit emitFunc) error {
		emit("one")
		_, release, err := later.Acquire(t.Context(), key, 0)
		if err != nil {
			t.Error(err)
			return err
		}
		defer release()
		<-ctx.Done()
		return ctx.Err()
	})
	w := e.serve("POST", "/run", runBody("hello", "s", "x"))
	expectResponse(t, w, 409, `{"detail":"session s was taken over by another host during this turn: stored events are kept, retry later"}`)
	if got := e.eventAuthors(t, key); got != "user hello" {
		t.Errorf("stored events are by %s, want user hello", got)
	}
}

// newLeasedEnv returns a server with a lease duration and the real clock.
func newLeasedEnv(t *testing.T, url string, lease time.Duration) *env {
	t.Helper()
	st, err := storeurl.Open(t.Context(), url, &storeurl.Options{Schemes: testenv.Schemes(), Options: store.Options{Lease: lease}})
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
	return wrapEnv(&servertest.Env{Host: host, Store: st, Server: server.New(host, nil)})
}

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
	st, err := storeurl.Open(t.Context(), at, &storeurl.Options{Schemes: testenv.Schemes(), Artifacts: "memory:"})
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
	return wrapEnv(&servertest.Env{Host: host, Store: st, Server: server.New(host, nil)})
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

package server_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func openReplica(t *testing.T, url string, clock func() time.Time) *store.Sessions {
	t.Helper()
	st, err := store.Open(t.Context(), url, &store.Options{Clock: clock})
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

// A session in use by another process is as busy as one in use here.
func TestSessionBusyOnOtherReplica(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	e := newEnvOn(t, url, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	key := e.createSession(t, "hello", "s")
	_, free, err := openReplica(t, url, time.Now).Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	w := e.serve("POST", "/run", runBody("hello", "s", "x"))
	expectResponse(t, w, 409, `{"detail":"session s is busy with another run, retry later"}`)
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
}

// Two replicas may be asked at once for a session that is to be made with its
// first message. The one that comes second waits for the other, as for any
// session; that there is one already is no answer to a run.
func TestSessionCreatedOnOtherReplica(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	key := session.Key{App: "hello", User: "u", ID: "s"}
	other := openReplica(t, url, time.Now)
	free := func() {}
	first := func() {
		if _, err := other.Create(t.Context(), key, nil); err != nil {
			t.Error(err)
		}
		var err error
		if _, free, err = other.Acquire(t.Context(), key, 0); err != nil {
			t.Error(err)
		}
	}
	// A store looks at the clock when it asks for a session, and again when it
	// makes the one that it did not find.
	var looks atomic.Int64
	clock := func() time.Time {
		if looks.Add(1) == 2 {
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
	free()
	if err := other.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if w := e.serve("POST", "/run", runBody("hello", "s", "x")); w.Code != 200 {
		t.Errorf("status %d, want 200: %s", w.Code, w.Body)
	}
}

// A run whose session was taken over, because its host was not heard of for too
// long, ends with its next event, and the client may try again.
func TestLeaseTakenOver(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	e := newEnvOn(t, url, nil)
	key := e.createSession(t, "hello", "s")
	later := openReplica(t, url, func() time.Time { return time.Now().Add(time.Hour) })
	e.addFuncApp(t, "hello", func(_ context.Context, say emitFunc) error {
		say("one")
		_, free, err := later.Acquire(t.Context(), key, 0)
		if err != nil {
			t.Error(err)
			return err
		}
		defer free()
		say("two")
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

// A run that has nothing to store for a while hears of it all the same: what it
// waits for is called off, and the client is told why.
func TestLeaseTakenOverDuringWait(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	e := newLeasedEnv(t, url, 300*time.Millisecond)
	key := e.createSession(t, "hello", "s")
	later := openReplica(t, url, func() time.Time { return time.Now().Add(time.Hour) })
	e.addFuncApp(t, "hello", func(ctx context.Context, say emitFunc) error {
		say("one")
		_, free, err := later.Acquire(t.Context(), key, 0)
		if err != nil {
			t.Error(err)
			return err
		}
		defer free()
		<-ctx.Done()
		return ctx.Err()
	})
	w := e.serve("POST", "/run", runBody("hello", "s", "x"))
	expectResponse(t, w, 409, `{"detail":"session s was taken over by another host during this turn: stored events are kept, retry later"}`)
	if got := e.eventAuthors(t, key); got != "user hello" {
		t.Errorf("stored events are by %s, want user hello", got)
	}
}

// newLeasedEnv is an environment by the clock on the wall.
func newLeasedEnv(t *testing.T, url string, lease time.Duration) *env {
	t.Helper()
	st, err := store.Open(t.Context(), url, &store.Options{Lease: lease})
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

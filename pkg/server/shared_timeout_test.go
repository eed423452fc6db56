package server_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// A slowBackend takes 4 seconds of its 10-second timeout for each call.
type slowBackend struct {
	store.SessionBackend
}

func spendTime(ctx context.Context) error {
	defer store.BeginCall(ctx)()
	const takes, timeout = 4 * time.Second, 10 * time.Second
	if rest := store.RemainingTimeout(ctx, timeout); rest < takes {
		time.Sleep(rest)
		return &store.ArtifactsUnavailable{Err: context.DeadlineExceeded}
	}
	time.Sleep(takes)
	return nil
}

func (b slowBackend) ReadSession(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	if err := spendTime(ctx); err != nil {
		return nil, err
	}
	return b.SessionBackend.ReadSession(ctx, key, w)
}

func (b slowBackend) AppendEvent(ctx context.Context, rec store.AppendRecord) (store.AppendResult, error) {
	if err := spendTime(ctx); err != nil {
		return store.AppendResult{}, err
	}
	return b.SessionBackend.AppendEvent(ctx, rec)
}

// A request that changes a session has one timeout for all its store calls. A run has it only
// until it has the session: each of its events has its own.
func TestRequestHasOneTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fast := memstore.NewSessions()
		st := store.New(&store.Backends{
			Sessions: slowBackend{fast}, Artifacts: memstore.NewArtifacts(), Memories: memstore.NewMemories(),
			Revisions: memstore.NewRevisions(), Unshared: true,
		}, nil)
		host := runtime.NewHost(st, nil)
		e := wrapEnv(&servertest.Env{Host: host, Store: st, Server: server.New(host, nil)})
		e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
		e.createSession(t, "hello", "s")
		for _, tt := range []struct {
			method, path, body string
			status             int
			takes              time.Duration
		}{
			{"GET", "/apps/hello/users/u/sessions/s", "", http.StatusOK, 4 * time.Second},
			{"PATCH", "/apps/hello/users/u/sessions/s", `{"stateDelta":{"k":1}}`, http.StatusServiceUnavailable, 10 * time.Second},
			{"POST", "/run", runBody("hello", "s", "hello"), http.StatusOK, 12 * time.Second},
		} {
			began := time.Now()
			rec := e.serve(tt.method, tt.path, tt.body)
			if took := time.Since(began); rec.Code != tt.status || took != tt.takes {
				t.Errorf("%s %s = %d after %s, want %d after %s: %s", tt.method, tt.path, rec.Code, took, tt.status, tt.takes, rec.Body)
			}
		}
		host.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
}

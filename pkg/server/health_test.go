package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/internal/fake/fakevertex"
	"agenthost/internal/servertest"
	"agenthost/internal/testdb"
	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
)

// A server without an active app, or one that is shutting down, is not ready and
// reports the reasons.
func TestReady(t *testing.T) {
	var now atomic.Int64 // the clock advances one second per reading
	clock := func() time.Time { return time.Unix(now.Add(1), 0) }
	e := newEnv(t, &server.Options{Clock: clock})
	expectResponse(t, e.serve("GET", "/readyz", ""), 503, `{"ready":false,"reasons":["no app is active"]}`)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":[]}`)
	expectResponse(t, e.serve("POST", "/-/reload", ""), 200, `{"changed":[],"failed":[],"removed":[]}`)
	e.server.Drain()
	expectResponse(t, e.serve("GET", "/readyz", ""), 503, `{"ready":false,"reasons":["server is shutting down"]}`)
	expectResponse(t, e.serve("GET", "/livez", ""), 200, `{"status":"ok"}`)
	if err := e.store.Close(); err != nil {
		t.Fatal(err)
	}
	expectResponse(t, e.serve("GET", "/readyz", ""), 503, `{"ready":false,"reasons":["server is shutting down","session store is not writable","artifact store is not writable"]}`)
}

// A client that disconnects during a readiness check is not reported as a store
// failure.
func TestReadyClientLeaves(t *testing.T) {
	var log bytes.Buffer
	e := newEnv(t, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/readyz", nil))
	if expectResponse(t, w, 499, ""); log.Len() > 0 {
		t.Errorf("log = %s, want it empty", &log)
	}
}

// tickingClock returns a clock that advances one second per reading.
func tickingClock() func() time.Time {
	var now atomic.Int64
	return func() time.Time { return time.Unix(now.Add(1), 0) }
}

// While the store is unavailable, the server is not ready, requests get 503 with
// Retry-After, and the log contains the cause. Afterwards it recovers.
func TestStoreUnavailable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	var log bytes.Buffer
	e := newEnvOn(t, "sqlite:///"+path, &server.Options{Clock: tickingClock(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	e.createSession(t, "hello", "s")
	const sessions = "/apps/hello/users/u/sessions"
	expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":[]}`)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	expectResponse(t, e.serve("GET", "/readyz", ""), 503, `{"ready":false,"reasons":["session store is not writable"]}`)
	for _, call := range [][3]string{
		{"POST", "/run", runBody("hello", "s", "x")},
		{"POST", "/run_sse", runBody("hello", "s", "x")},
		{"GET", sessions + "/s", ""},
		{"GET", sessions, ""},
		{"POST", sessions, "{}"},
		{"PATCH", sessions + "/s", `{"stateDelta":{"k":1}}`},
		{"DELETE", sessions + "/s", ""},
	} {
		w := e.serve(call[0], call[1], call[2])
		expectResponse(t, w, 503, `{"detail":"session store unavailable, retry later"}`)
		if got := w.Header().Get("Retry-After"); got != "2" {
			t.Errorf("%s %s: Retry-After = %q, want 2", call[0], call[1], got)
		}
	}
	if text := log.String(); !strings.Contains(text, "session store unavailable") || !strings.Contains(text, "database file removed or replaced") {
		t.Errorf("log: %s", text)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":[]}`)
	if w := e.serve("POST", "/run", runBody("hello", "s", "x")); w.Code != 200 {
		t.Errorf("run after recovery: %d %s", w.Code, w.Body)
	}
}

// Readiness checks within a second share one write.
func TestProbesShareWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	now := time.Now()
	e := newEnvOn(t, "sqlite:///"+path, &server.Options{Clock: func() time.Time { return now }})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	before := e.store.Stats()
	for range 20 {
		expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":[]}`)
	}
	if after := e.store.Stats(); after.Writes-before.Writes != 1 {
		t.Errorf("20 probes made %d writes, want 1", after.Writes-before.Writes)
	}
}

// A damaged row is an internal error; the log names app, user, session and event.
func TestDamagedRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	st, err := storeurl.Open(t.Context(), "sqlite:///"+path, &storeurl.Options{Schemes: testenv.Schemes()})
	if err != nil {
		t.Fatal(err)
	}
	sess, err := st.Sessions.Create(t.Context(), session.Key{App: "hello", User: "u", ID: "s"}, nil)
	for range 2 {
		if err == nil {
			err = st.Sessions.Append(t.Context(), sess, &session.Event{Author: "user"})
		}
	}
	if err = errors.Join(err, st.Close()); err != nil {
		t.Fatal(err)
	}
	for _, damage := range []string{`UPDATE events SET event = '{"author":1}' WHERE seq = 1`, "DELETE FROM events WHERE seq = 1"} {
		if err := testdb.Exec(t.Context(), "sqlite:///"+path, damage); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		e := newEnvOn(t, "sqlite:///"+path, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
		expectResponse(t, e.serve("GET", "/apps/hello/users/u/sessions/s", ""), 500, `{"detail":"internal error"}`)
		expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", "x")), 500, `{"detail":"internal error"}`)
		e.host.Close() // releases the session
		if err := e.store.Close(); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "session hello/u/s is damaged: event 1: "); n != 2 {
			t.Errorf("log: %s", &log)
		}
	}
}

// A memory service that fails is a reason, with its resource, but the server stays ready: all
// replicas share the service.
func TestMemoryServiceUnavailable(t *testing.T) {
	fake := &fakevertex.Server{Project: "p", Number: "1", Location: "l", Corpora: []string{"5"}}
	var failing atomic.Bool
	fake.Fault = func(*http.Request) *fakevertex.Fault {
		if failing.Load() {
			return &fakevertex.Fault{Code: 403, Status: "PERMISSION_DENIED"}
		}
		return nil
	}
	vertex := httptest.NewServer(fake)
	defer vertex.Close()
	variables := map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l", "GOOGLE_VERTEX_BASE_URL": vertex.URL}
	st, err := storeurl.Open(t.Context(), "memory:", &storeurl.Options{Schemes: testenv.Schemes(), Memory: "rag://5", Lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }})
	if err != nil {
		t.Fatal(err)
	}
	host := runtime.NewHost(st, &runtime.Options{})
	t.Cleanup(func() {
		host.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	e := wrapEnv(&servertest.Env{Host: host, Store: st, Server: server.New(host, &server.Options{Clock: tickingClock(), Logger: slog.New(slog.DiscardHandler)})})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":[]}`)
	failing.Store(true)
	expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":["memory service cannot be read: memories of projects/p/locations/l/ragCorpora/5: 403 PERMISSION_DENIED; hint: check that the project exists, and grant the host's account the role roles/aiplatform.user on it, for projects/p/locations/l/ragCorpora/5"]}`)
}

// foldersReloader is a reloader with folders that have problems, and an app in one folder.
type foldersReloader struct{ fakeReloader }

func (foldersReloader) Folders() []server.FolderStatus {
	return []server.FolderStatus{
		{Name: "good"},
		{Name: "lone", Unreadable: "folder not found"},
		{Name: "more", Problems: []string{"app x is not served: the folder good has an app with the same name"}},
	}
}

// Reload changes nothing.
func (foldersReloader) Reload(context.Context) error { return nil }

// An app folder that cannot be read, and its apps, are reasons, but the server stays ready,
// because their last good revisions serve. A reload and the change stream name the folder,
// also if it has no apps.
func TestUnreadableFolder(t *testing.T) {
	apps := fakeReloader{
		"lone":  {App: "lone", Revision: "r1", Unreadable: "folder not found"},
		"never": {App: "never", Unreadable: "permission denied"},
	}
	for _, tt := range []struct {
		apps    fakeReloader
		reasons string
		failed  string
	}{
		{fakeReloader{}, "", ""},
		{
			apps, `,"app lone: its folder cannot be read, revision r1 stays active","app never: its folder cannot be read, no revision is active"`,
			`{"app":"lone","revision":"r1","ok":false,"unreadable":"folder not found","diagnostics":[]},{"app":"never","revision":"","ok":false,"unreadable":"permission denied","diagnostics":[]}`,
		},
	} {
		e := newEnv(t, &server.Options{Reloader: foldersReloader{tt.apps}})
		e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
		expectResponse(t, e.serve("GET", "/readyz", ""), 200, `{"ready":true,"reasons":["folder lone cannot be read: folder not found","folder more: app x is not served: the folder good has an app with the same name"`+tt.reasons+`]}`)
		folders := `"folders":[{"name":"lone","unreadable":"folder not found"},{"name":"more","problems":["app x is not served: the folder good has an app with the same name"]}]`
		expectResponse(t, e.serve("POST", "/-/reload", ""), 409, `{"changed":[],"failed":[`+tt.failed+`],"removed":[],`+folders+`}`)
		ctx, stop := context.WithCancel(t.Context())
		stop() // after the first frame
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1/-/changes", nil))
		if !strings.Contains(w.Body.String(), folders) {
			t.Errorf("changes: %s, want %s", w.Body, folders)
		}
	}
}

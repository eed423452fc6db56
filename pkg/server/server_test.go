package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/tool"
)

func TestBusySession(t *testing.T) {
	e := newEnv(t, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	_, release, err := e.store.Sessions.Acquire(t.Context(), e.createSession(t, "hello", "s"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, req := range []struct{ method, path, body string }{
		{"POST", "/run", runBody("hello", "s", "x")},
		{"POST", "/run_sse", runBody("hello", "s", "x")},
		{"PATCH", "/apps/hello/users/u/sessions/s", `{"stateDelta":{}}`},
		{"POST", "/apps/hello/users/u/sessions", `{"sessionId":"s","events":[{"author":"user"}]}`},
	} {
		w := e.serve(req.method, req.path, req.body)
		expectResponse(t, w, 409, `{"detail":"session s is busy with another run, retry later"}`)
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("%s %s: Retry-After = %q, want 1", req.method, req.path, got)
		}
	}
}

func TestDrain(t *testing.T) {
	e := newEnv(t, nil)
	running, proceed := make(chan struct{}), make(chan struct{})
	e.addFuncApp(t, "slow", func(_ context.Context, emit emitFunc) error {
		close(running)
		<-proceed
		emit("done")
		return nil
	})
	e.createSession(t, "slow", "s")
	if err := e.server.Wait(t.Context()); err != nil {
		t.Errorf("Wait without runs = %v, want nil", err)
	}
	response := make(chan *httptest.ResponseRecorder)
	go func() { response <- e.serve("POST", "/run", runBody("slow", "s", "x")) }()
	<-running
	e.server.Drain()
	for _, path := range []string{"/run", "/run_sse"} {
		w := e.serve("POST", path, runBody("slow", "s", "x"))
		expectResponse(t, w, 503, `{"detail":"server is shutting down, retry later"}`)
		if got := w.Header().Get("Retry-After"); got != "1" {
			t.Errorf("%s: Retry-After = %q, want 1", path, got)
		}
	}
	expectResponse(t, e.serve("GET", "/health", ""), 200, `{"status":"ok"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.server.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait during a run = %v, want the context's error", err)
	}
	close(proceed)
	if w := <-response; w.Code != 200 {
		t.Errorf("the run in progress = %d %s, want 200", w.Code, w.Body)
	}
	if err := e.server.Wait(t.Context()); err != nil {
		t.Errorf("Wait after the last run = %v, want nil", err)
	}
}

// newBufferLogger returns a logger and its output.
func newBufferLogger(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level})), &out
}

// The cause of an internal error is only logged, together with the request.
func TestInternalErrors(t *testing.T) {
	logger, log := newBufferLogger(slog.LevelInfo)
	e := newEnv(t, &server.Options{Logger: logger})
	e.addFuncApp(t, "leaky", func(context.Context, emitFunc) error { return errors.New("secret cause") })
	e.createSession(t, "leaky", "s")

	expectResponse(t, e.serve("POST", "/run", runBody("leaky", "s", "x")), 500, `{"detail":"internal error"}`)
	for _, word := range []string{"method=POST", "path=/run", "app=leaky", "session=s", "secret cause"} {
		if !strings.Contains(log.String(), word) {
			t.Errorf("log = %s, want %s in it", log, word)
		}
	}
	expectResponse(t, e.serve("POST", "/run_sse", runBody("leaky", "s", "x")), 200, `data: {"error":"internal error","errorCode":"INTERNAL","author":"leaky"}`+"\n\n")

	if err := e.store.Close(); err != nil {
		t.Fatal(err)
	}
	expectResponse(t, e.serve("GET", "/apps/leaky/users/u/sessions/s", ""), 500, `{"detail":"internal error"}`)
}

// panickingReloader panics when a status is read.
type panickingReloader struct{ server.Reloader }

func (panickingReloader) Status(string) (server.Status, bool) { panic("secret cause") }

// panickingWriter panics at the second frame.
type panickingWriter struct {
	*httptest.ResponseRecorder
	frames int
}

func (w *panickingWriter) Write(b []byte) (int, error) {
	if w.frames++; w.frames > 1 {
		panic("writer failed")
	}
	return w.ResponseRecorder.Write(b)
}

func TestHandlerPanics(t *testing.T) {
	logger, log := newBufferLogger(slog.LevelInfo)
	e := newEnv(t, &server.Options{Logger: logger, Reloader: panickingReloader{}})
	e.addFuncApp(t, "hello", func(_ context.Context, emit emitFunc) error {
		emit("one")
		emit("two")
		return nil
	})
	key := e.createSession(t, "hello", "s")

	expectResponse(t, e.serve("GET", "/apps/hello/diagnostics", ""), 500, `{"detail":"internal error"}`)
	if text := log.String(); !strings.Contains(text, "secret cause") || !strings.Contains(text, "server_test.go") {
		t.Errorf("log = %s, want the reason and the stack", text)
	}

	// A stream that has started is aborted.
	func() {
		defer func() {
			if got, _ := recover().(error); !errors.Is(got, http.ErrAbortHandler) {
				t.Errorf("panic after the first frame = %v, want http.ErrAbortHandler", got)
			}
		}()
		e.server.ServeHTTP(&panickingWriter{ResponseRecorder: httptest.NewRecorder()},
			httptest.NewRequest("POST", "/run_sse", strings.NewReader(runBody("hello", "s", "x"))))
	}()

	_, release, err := e.store.Sessions.Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatalf("the session after a panic: %v", err)
	}
	release()
	if err := e.server.Wait(t.Context()); err != nil {
		t.Errorf("Wait after a panic = %v, want nil", err)
	}
}

// A preview without a user ID is that of a new user, whatever the tools need.
func TestPreviewWithoutUser(t *testing.T) {
	e := newEnv(t, nil)
	e.addLLMApp(t, "filing", &runtime.LLMOptions{Model: scriptedModel(t), Tools: []tool.Tool{servertest.BuiltinTool(t, "load_artifacts")}})
	if w := e.serve("POST", "/apps/filing/preview", `{"text":"hi"}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"name":"load_artifacts"`) {
		t.Errorf("preview without a user = %d %s", w.Code, w.Body)
	}
}

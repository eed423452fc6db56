package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

func TestOversizedBody(t *testing.T) {
	e := newEnv(t, &server.Options{MaxBody: 64})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	long := `{"state":{"k":"` + strings.Repeat("x", 64) + `"}}`
	for _, path := range []string{"/run", "/run_sse", "/apps/hello/preview", "/apps/hello/users/u/sessions", "/apps/hello/users/u/sessions/s"} {
		expectResponse(t, e.serve("POST", path, long), 413, `{"detail":"Request body exceeds the limit of 64 bytes"}`)
	}
	expectResponse(t, e.serve("PATCH", "/apps/hello/users/u/sessions/s", long), 413, `{"detail":"Request body exceeds the limit of 64 bytes"}`)
}

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

func TestStoppedRun(t *testing.T) {
	e := newEnv(t, nil)
	e.addFuncApp(t, "late", func(context.Context, emitFunc) error { return context.DeadlineExceeded })
	e.createSession(t, "late", "s")
	w := e.serve("POST", "/run", runBody("late", "s", "x"))
	expectResponse(t, w, 503, `{"detail":"the run was stopped"}`)
	if got := w.Header().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After = %q, want 1", got)
	}
}

// A session that is deleted or changed during a run ends the run.
func TestSessionChangedDuringRun(t *testing.T) {
	tests := []struct {
		name          string
		meanwhile     func(t *testing.T, e *env, key session.Key)
		status        int
		message, code string
	}{
		{"deleted", func(_ *testing.T, e *env, _ session.Key) {
			e.serve("DELETE", "/apps/hello/users/u/sessions/s", "")
		}, 404, "Session not found: s", "SESSION_NOT_FOUND"},
		{"changed", func(t *testing.T, e *env, key session.Key) {
			sess, err := e.store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.store.Sessions.Append(t.Context(), sess, &session.Event{Author: "other"}); err != nil {
				t.Fatal(err)
			}
		}, 409, "session s was changed by another writer, retry later", "SESSION_STALE"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t, nil)
			key := e.createSession(t, "hello", "s")
			e.addFuncApp(t, "hello", func(_ context.Context, emit emitFunc) error {
				emit("one")
				tc.meanwhile(t, e, key)
				emit("two")
				return nil
			})
			expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", "x")), tc.status, `{"detail":"`+tc.message+`"}`)
			if tc.status == 404 {
				e.createSession(t, "hello", "s")
			}
			w := e.serve("POST", "/run_sse", runBody("hello", "s", "x"))
			if last := `data: {"error":"` + tc.message + `","errorCode":"` + tc.code + `","author":"hello"}` + "\n\n"; !strings.HasSuffix(w.Body.String(), last) {
				t.Errorf("stream = %s\nwant it to end with %s", w.Body, last)
			}
		})
	}
}

// An event that cannot be encoded as JSON is an error of the agent, and a partial one,
// which is not stored, an internal error.
func TestUnencodableEvent(t *testing.T) {
	e := newEnv(t, nil)
	e.addFuncApp(t, "odd", func(_ context.Context, emit emitFunc) error {
		odd := func(ev *session.Event) { ev.AvgLogprobs = math.NaN() }
		if emit("one", markPartial, odd) {
			emit("two", odd)
		}
		return nil
	})
	e.createSession(t, "odd", "s")
	expectResponse(t, e.serve("POST", "/run", runBody("odd", "s", "x")), 500, `{"detail":"an event of agent odd cannot be stored: encoding event \"new-0004\": avgLogprobs: NaN is not a JSON number: invalid"}`)
	expectResponse(t, e.serve("POST", "/run_sse", runBody("odd", "s", "x")), 200, `data: {"error":"internal error","errorCode":"INTERNAL","author":"odd"}`+"\n\n")
}

func TestPartialEventsStayOutOfRun(t *testing.T) {
	e := newEnv(t, nil)
	e.addFuncApp(t, "hello", func(_ context.Context, emit emitFunc) error {
		emit("on", markPartial)
		emit("one")
		return nil
	})
	e.createSession(t, "hello", "s")
	var events []struct{ Partial bool }
	if err := json.Unmarshal(e.serve("POST", "/run", runBody("hello", "s", "x")).Body.Bytes(), &events); err != nil {
		t.Fatal(err)
	}
	if len(events) != 1 || events[0].Partial {
		t.Errorf("POST /run = %v, want the whole event only", events)
	}
}

func TestRunWithoutEvents(t *testing.T) {
	e := newEnv(t, nil)
	e.addFuncApp(t, "mute", func(context.Context, emitFunc) error { return nil })
	e.createSession(t, "mute", "s")
	expectResponse(t, e.serve("POST", "/run", runBody("mute", "s", "x")), 200, "[]")
	w := e.serve("POST", "/run_sse", runBody("mute", "s", "x"))
	expectResponse(t, w, 200, "")
	if got := w.Header().Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("Content-Type = %q, want an event stream", got)
	}
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

// A panic of an agent fails its run. The response omits the cause.
func TestAgentPanics(t *testing.T) {
	e := newEnv(t, nil)
	e.addFuncApp(t, "hello", func(_ context.Context, emit emitFunc) error { panic("secret cause") })
	e.createSession(t, "hello", "s")
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", "x")), 500, `{"detail":"agent hello panicked"}`)
	expectResponse(t, e.serve("POST", "/run_sse", runBody("hello", "s", "x")), 200,
		`data: {"error":"agent hello panicked","errorCode":"AGENT_FAILED","author":"hello"}`+"\n\n")
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
			if got := recover(); got != http.ErrAbortHandler {
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

func TestRequestLog(t *testing.T) {
	logger, log := newBufferLogger(slog.LevelDebug)
	now := time.Unix(0, 0)
	clock := func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	e := newEnv(t, &server.Options{Logger: logger, Clock: clock})
	w := e.serve("GET", "/health", "")
	if want := "level=DEBUG msg=request method=GET path=/health status=200 took=1s\n"; !strings.HasSuffix(log.String(), want) {
		t.Errorf("log = %s, want %s", log, want)
	}
	if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options = %q, want nosniff", got)
	}
}

// For any body the response is JSON and not an internal error.
func FuzzRunBody(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", "[", runBody("hello", "s", "x"), runBody("hello", "nope", "x"),
		`{"app_name":"hello","user_id":"u","session_id":"s","new_message":{"parts":[{"functionCall":{}}]}}`,
		`{"appName":"hello","userId":"u","sessionId":"s","newMessage":{"parts":[{"inlineData":{"data":"_-8="}}]},"stateDelta":{"a":1e400}}`,
		`{"userId":"\ud800","sessionId":"\u0000","streaming":1,"customMetadata":[]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e := newEnv(t, nil)
		e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
		e.createSession(t, "hello", "s")
		for _, path := range []string{"/run", "/apps/hello/preview", "/apps/hello/users/u/sessions", "/apps/hello/users/u/sessions/s2"} {
			w := e.serve("POST", path, text)
			if !json.Valid(w.Body.Bytes()) {
				t.Errorf("POST %s %q = %d %s, want JSON", path, text, w.Code, w.Body)
			}
			if strings.Contains(w.Body.String(), "internal error") {
				t.Errorf("POST %s %q = %d %s, want no internal error", path, text, w.Code, w.Body)
			}
		}
	})
}

func TestAutoCreateSession(t *testing.T) {
	e := newEnv(t, &server.Options{AutoCreateSession: true})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	for _, path := range []string{"/run", "/run_sse"} {
		id := strings.TrimPrefix(path, "/")
		if w := e.serve("POST", path, runBody("hello", id, "x")); w.Code != 200 {
			t.Errorf("POST %s = %d %s, want 200", path, w.Code, w.Body)
		}
		if got := e.eventAuthors(t, session.Key{App: "hello", User: "u", ID: id}); got != "user hello" {
			t.Errorf("POST %s stored events of %q, want user hello", path, got)
		}
	}
}

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
	expectResponse(t, e.serve("GET", "/readyz", ""), 503, `{"ready":false,"reasons":["server is shutting down","session store is not writable"]}`)
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

// A preview without a user ID is that of a new user, whatever the tools need.
func TestPreviewWithoutUser(t *testing.T) {
	e := newEnv(t, nil)
	e.addLLMApp(t, "filing", &runtime.LLMOptions{Model: scriptedModel(t), Tools: []tool.Tool{builtinTool(t, "load_artifacts")}})
	if w := e.serve("POST", "/apps/filing/preview", `{"text":"hi"}`); w.Code != 200 || !strings.Contains(w.Body.String(), `"name":"load_artifacts"`) {
		t.Errorf("preview without a user = %d %s", w.Code, w.Body)
	}
}

package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// sleepContext waits in the fake time of synctest.
func sleepContext(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// splitFrames splits a stream at empty lines.
func splitFrames(stream string) []string {
	frames := strings.SplitAfter(stream, "\n\n")
	return frames[:len(frames)-1]
}

// emitSlowly emits events after 40, 14 and 16 seconds.
func emitSlowly(ctx context.Context, emit emitFunc) error {
	for _, d := range []time.Duration{40 * time.Second, 14 * time.Second, 16 * time.Second} {
		if err := sleepContext(ctx, d); err != nil || !emit(d.String()) {
			return err
		}
	}
	return nil
}

// By default a stream has only data lines and empty lines, as in ADK, however long it
// is idle: public clients parse every line as JSON.
func TestStreamWithoutEventIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.addFuncApp(t, "slow", emitSlowly)
		e.createSession(t, "slow", "s")
		w := e.serve("POST", "/run_sse", runBody("slow", "s", "x"))
		for _, frame := range splitFrames(w.Body.String()) {
			event, ok := strings.CutPrefix(frame, "data: ")
			if !ok || !json.Valid([]byte(event)) {
				t.Errorf("frame %q is not an event", frame)
			}
		}
		if got := len(splitFrames(w.Body.String())); got != 3 {
			t.Errorf("%d frames, want 3", got)
		}
		expectResponse(t, e.serve("POST", "/run_sse?eventIds=perhaps", runBody("slow", "s", "x")), 422,
			`{"detail":[{"type":"bool_parsing","loc":["query","eventIds"],"msg":"Input should be true or false"}]}`)
	})
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.addFuncApp(t, "slow", emitSlowly)
		e.createSession(t, "slow", "s")
		frames := splitFrames(e.serve("POST", "/run_sse?eventIds=true", runBody("slow", "s", "x")).Body.String())
		var got []string
		for _, f := range frames {
			if strings.HasPrefix(f, "data: ") {
				f = "event"
			}
			if !strings.HasPrefix(f, "id: ") {
				got = append(got, strings.TrimSpace(f))
			}
		}
		// Two comments in the first 40 s, none in the 14 s after an event.
		want := ": keep-alive, : keep-alive, event, event, : keep-alive, event"
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("frames = %s, want %s", text, want)
		}
	})
}

// A client that accepts comments sees what a model call waits for; others get no
// comment.
func TestModelWaitComment(t *testing.T) {
	busy := func(_ context.Context, req *model.Request) (*model.Response, error) {
		req.OnWait(model.Wait{Model: "openai/gpt-4o", Cause: "answered 429", Delay: 8 * time.Second, Attempt: 2, Attempts: 3})
		return &model.Response{Content: model.ModelText("hi")}, nil
	}
	for path, want := range map[string]string{
		"/run_sse?eventIds=true": ": waiting 8 s: openai/gpt-4o answered 429 (attempt 2 of 3)\n\n",
		"/run_sse":               "",
	} {
		e := newEnv(t, nil)
		e.addLLMApp(t, "busy", &runtime.LLMOptions{Model: responseFunc(busy)})
		e.createSession(t, "busy", "s")
		comment, _, _ := strings.Cut(e.serve("POST", path, runBody("busy", "s", "x")).Body.String(), "data: ")
		if comment != want {
			t.Errorf("%s begins with %q, want %q", path, comment, want)
		}
	}
}

// responseFunc is a function as a model.
type responseFunc func(ctx context.Context, req *model.Request) (*model.Response, error)

func (responseFunc) Name() string { return "function" }

func (f responseFunc) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) { yield(f(ctx, req)) }
}

func TestKeepAliveBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, &server.Options{KeepAlive: time.Second})
		e.addFuncApp(t, "slow", func(ctx context.Context, _ emitFunc) error { return sleepContext(ctx, 1500*time.Millisecond) })
		e.createSession(t, "slow", "s")
		expectResponse(t, e.serve("POST", "/run_sse", runBody("slow", "s", "x")), 200, ": keep-alive\n\n")
	})
}

// If a comment is sent before the first event, the header is sent too, and an error
// becomes the last frame instead of the status.
func TestErrorAfterKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, &server.Options{KeepAlive: time.Second})
		e.addFuncApp(t, "slow", func(ctx context.Context, emit emitFunc) error {
			if err := sleepContext(ctx, 1500*time.Millisecond); err != nil {
				return err
			}
			e.serve("DELETE", "/apps/slow/users/u/sessions/s", "")
			emit("late")
			return nil
		})
		e.createSession(t, "slow", "s")
		expectResponse(t, e.serve("POST", "/run_sse", runBody("slow", "s", "x")), 200,
			": keep-alive\n\n"+`data: {"error":"Session not found: s","errorCode":"SESSION_NOT_FOUND","author":"slow"}`+"\n\n")
	})
}

// stuckWriter is a client that reads the first frames only. Later writes block until
// their deadline.
type stuckWriter struct {
	*httptest.ResponseRecorder
	accepts  int
	deadline time.Time
}

func (w *stuckWriter) SetWriteDeadline(at time.Time) error {
	w.deadline = at
	return nil
}

func (w *stuckWriter) Write(b []byte) (int, error) {
	if w.accepts--; w.accepts >= 0 {
		return w.ResponseRecorder.Write(b)
	}
	<-time.After(time.Until(w.deadline))
	return 0, os.ErrDeadlineExceeded
}

func TestStuckClientEndsRun(t *testing.T) {
	tests := []struct {
		name  string
		takes int
		act   agentFunc
		want  time.Duration
	}{
		{"at an event", 1, func(_ context.Context, emit emitFunc) error {
			for emit("more") {
			}
			return nil
		}, 10 * time.Second},
		{"at a comment", 1, func(ctx context.Context, emit emitFunc) error {
			emit("one")
			<-ctx.Done()
			return ctx.Err()
		}, 25 * time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, &server.Options{WriteTimeout: 10 * time.Second, KeepAlive: 15 * time.Second})
				e.addFuncApp(t, "chatty", tc.act)
				key := e.createSession(t, "chatty", "s")
				began := time.Now()
				w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), accepts: tc.takes}
				e.server.ServeHTTP(w, httptest.NewRequest("POST", "/run_sse", strings.NewReader(runBody("chatty", "s", "x"))))
				if took := time.Since(began); took != tc.want {
					t.Errorf("the run took %v, want %v", took, tc.want)
				}
				if _, release, err := e.store.Sessions.Acquire(t.Context(), key, 0); err != nil {
					t.Errorf("the session is not released: %v", err)
				} else {
					release()
				}
			})
		})
	}
}

// An event is flushed before its agent continues, and its write deadline is removed:
// HTTP/2 would reset the stream.
func TestEventFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), accepts: 9}
		e.addFuncApp(t, "hello", func(_ context.Context, emit emitFunc) error {
			emit("one")
			if !w.deadline.IsZero() || !w.Flushed {
				t.Errorf("deadline = %v, flushed = %v, want none and true", w.deadline, w.Flushed)
			}
			return nil
		})
		e.createSession(t, "hello", "s")
		e.server.ServeHTTP(w, httptest.NewRequest("POST", "/run_sse", strings.NewReader(runBody("hello", "s", "x"))))
	})
}

// A client that disconnects cancels the run. Stored events are kept, an event has the
// reason, and the session is released.
func TestClientLeaves(t *testing.T) {
	e := newEnv(t, nil)
	stopped := make(chan error, 1)
	e.addFuncApp(t, "slow", func(ctx context.Context, emit emitFunc) error {
		emit("one")
		<-ctx.Done()
		stopped <- ctx.Err()
		return ctx.Err()
	})
	key := e.createSession(t, "slow", "s")
	srv := httptest.NewServer(e.server)
	defer srv.Close()

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/run_sse", strings.NewReader(runBody("slow", "s", "x")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("first line = %q, %v, want an event", line, err)
	}
	leave()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("the agent's context ended with %v, want Canceled", err)
	}
	if err := e.server.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, release, err := e.store.Sessions.Acquire(t.Context(), key, 0)
	if err != nil {
		t.Fatalf("the session is not released: %v", err)
	}
	release()
	if got := e.eventAuthors(t, key); got != "user slow slow" {
		t.Errorf("stored events are of %q, want user slow slow", got)
	}
	sess, err := e.store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last := sess.Events()[2]; last.ErrorCode != "INVOCATION_ABORTED" || last.Actions.EndOfAgent {
		t.Errorf("the last event has the error code %q and endOfAgent %t", last.ErrorCode, last.Actions.EndOfAgent)
	}
}

// A canceled request gets no response if its client has disconnected, but an error if
// the server is shutting down.
func TestRequestEnds(t *testing.T) {
	const frame = `data: {"error":"the run was stopped","errorCode":"CANCELED","author":"slow"}` + "\n\n"
	for _, tc := range []struct {
		name, path string
		drain      bool
		status     int
		body       string
	}{
		{"run, client disconnects", "/run", false, 499, ""},
		{"run, server drains", "/run", true, 503, `{"detail":"the run was stopped"}`},
		{"stream", "/run_sse", false, 200, frame},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e := newEnv(t, nil)
			ctx, end := context.WithCancel(t.Context())
			e.addFuncApp(t, "slow", func(ctx context.Context, _ emitFunc) error {
				if tc.drain {
					e.server.Drain()
				}
				end()
				<-ctx.Done()
				return ctx.Err()
			})
			e.createSession(t, "slow", "s")
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "POST", tc.path, strings.NewReader(runBody("slow", "s", "x"))))
			expectResponse(t, w, tc.status, tc.body)
		})
	}
}

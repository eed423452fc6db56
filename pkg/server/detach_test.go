package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// emitTicks emits "one", "two" and "three", one second apart.
func emitTicks(ctx context.Context, emit emitFunc) error {
	for _, text := range []string{"one", "two", "three"} {
		if !emit(text) {
			return nil
		}
		if err := sleepContext(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// leavingClient disconnects after the first frame.
type leavingClient struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
}

func (w *leavingClient) Write(b []byte) (int, error) {
	if w.ResponseRecorder.Body.Len() > 0 {
		return 0, net.ErrClosed
	}
	w.leave()
	return w.ResponseRecorder.Write(b)
}

// A client that disconnects cancels its run, unless the request has detach=true. A
// detached run stores its remaining events.
func TestDetach(t *testing.T) {
	for path, want := range map[string]string{
		"/run_sse": "user ticking", "/run_sse?detach=true": "user ticking ticking ticking",
		"/run": "user ticking ticking ticking", "/run?detach=true": "user ticking ticking ticking",
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, nil)
				e.addFuncApp(t, "ticking", emitTicks)
				key := e.createSession(t, "ticking", "s")
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				r := httptest.NewRequest("POST", path, strings.NewReader(runBody("ticking", "s", "x"))).WithContext(ctx)
				e.server.ServeHTTP(&leavingClient{httptest.NewRecorder(), leave}, r)
				if got := e.eventAuthors(t, key); got != want {
					t.Errorf("stored: %s, want %s", got, want)
				}
			})
		})
	}
	e := newEnv(t, nil)
	expectResponse(t, e.serve("POST", "/run?detach=perhaps", runBody("x", "s", "x")), 422, `{"detail":[{"type":"bool_parsing","loc":["query","detach"],"msg":"Input should be true or false"}]}`)
}

// Abort cancels detached runs.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.addFuncApp(t, "endless", func(ctx context.Context, emit emitFunc) error {
			emit("one")
			<-ctx.Done()
			return ctx.Err()
		})
		e.createSession(t, "endless", "s")
		done := make(chan struct{})
		go func() {
			defer close(done)
			e.serve("POST", "/run_sse?detach=true", runBody("endless", "s", "x"))
		}()
		synctest.Wait()
		e.server.Drain()
		e.server.Abort()
		<-done
	})
}

// A run that exceeds MaxRunTime is canceled, and its client receives an error.
func TestMaxRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, &server.Options{MaxRunTime: 1500 * time.Millisecond})
		e.addFuncApp(t, "ticking", emitTicks)
		key := e.createSession(t, "ticking", "s")
		w := e.serve("POST", "/run_sse", runBody("ticking", "s", "x"))
		if got := e.eventAuthors(t, key); got != "user ticking ticking" {
			t.Errorf("stored: %s", got)
		}
		if !strings.HasSuffix(w.Body.String(), `data: {"error":"the run was stopped","errorCode":"CANCELED","author":"ticking"}`+"\n\n") {
			t.Errorf("stream = %s, want CANCELED as the last frame", w.Body)
		}
	})
}

// streamTexts returns the texts in a stream.
func streamTexts(stream string) string {
	var all []string
	for _, m := range regexp.MustCompile(`"text":"(\w+)"`).FindAllStringSubmatch(stream, -1) {
		all = append(all, m[1])
	}
	return strings.Join(all, " ")
}

// resumeRun resumes the stream of session s after an event.
func (e *env) resumeRun(app, event string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/run_sse", strings.NewReader(runBody(app, "s", "ignored")))
	r.Header.Set("Last-Event-ID", event)
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, r)
	return w
}

func (e *env) loadEvents(t *testing.T, key session.Key) []*session.Event {
	t.Helper()
	sess, err := e.store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess.Events()
}

// A resumed stream sends the missed events, then new ones until the invocation ends. It
// sends no event twice and none of a later invocation.
func TestResumeStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.addFuncApp(t, "ticking", emitTicks)
		key := e.createSession(t, "ticking", "s")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.serve("POST", "/run_sse?detach=true", runBody("ticking", "s", "x"))
		}()
		time.Sleep(1500 * time.Millisecond)
		first := e.loadEvents(t, key)[1].ID
		began := time.Now()
		if w := e.resumeRun("ticking", first); streamTexts(w.Body.String()) != "two three" {
			t.Errorf("resume during the run: %s", w.Body)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("resume took %s, want at least 1s: the stream must wait for the end of the run", took)
		}
		<-ended
		e.serve("POST", "/run", runBody("ticking", "s", "again"))
		if w := e.resumeRun("ticking", first); w.Code != 200 || streamTexts(w.Body.String()) != "two three" {
			t.Errorf("resume after the run: %d %s", w.Code, w.Body)
		}
		if got := e.eventAuthors(t, key); got != "user ticking ticking ticking user ticking ticking ticking" {
			t.Errorf("stored: %s", got)
		}
		expectResponse(t, e.resumeRun("ticking", e.loadEvents(t, key)[3].ID), 200, "")
		expectResponse(t, e.resumeRun("ticking", "made-up"), 404, `{"detail":"Event not found: made-up"}`)
		expectResponse(t, e.resumeRun("other", first), 404, `{"detail":"Session not found"}`)
	})
}

// A client that sends its body too slowly or closes the connection early gets an error,
// and the connection is closed.
func TestSlowBody(t *testing.T) {
	e := newEnv(t, &server.Options{ReadTimeout: 50 * time.Millisecond})
	host := httptest.NewServer(e.server)
	defer host.Close()
	for end, want := range map[bool]string{false: "408 Request Timeout", true: "400 Bad Request"} {
		c, err := net.Dial("tcp", host.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "POST /run HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
		if end {
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := io.ReadAll(c)
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 "+want) {
			t.Errorf("answer = %q, %v, want %s", answer, err, want)
		}
	}
}

// The log and the metrics report a dropped client and the reason.
func TestDroppedClientIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := newEnv(t, &server.Options{WriteTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: server.NewMetrics("")})
		e.addFuncApp(t, "chatty", func(_ context.Context, emit emitFunc) error {
			for emit("more") {
			}
			return nil
		})
		e.createSession(t, "chatty", "s")
		w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), accepts: 2}
		e.server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/run_sse", strings.NewReader(runBody("chatty", "s", "x"))))
		if !strings.Contains(log.String(), `msg="stream client dropped" app=chatty session=s reason=slow`) {
			t.Errorf("log = %s", &log)
		}
		if m := e.serve("GET", "/metrics", "").Body.String(); !strings.Contains(m, `agenthost_http_streams_dropped_total{reason="slow"} 1`) {
			t.Error("the metrics do not count the dropped client")
		}
	})
}

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

// emitTicks says one, two, three, a second apart.
func emitTicks(ctx context.Context, say emitFunc) error {
	for _, text := range []string{"one", "two", "three"} {
		if !say(text) {
			return nil
		}
		if err := sleepContext(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// leavingClient is a client that leaves after the first frame.
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

// TestDetach: a client that leaves ends its run, and with detach=true not; what was
// said without it is stored, as any event is.
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

// TestAbort: a run whose client may leave ends when the host has no more time.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.addFuncApp(t, "endless", func(ctx context.Context, say emitFunc) error {
			say("one")
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

// TestMaxRunTime: a run that takes longer than the host allows is stopped, and its
// client is told.
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
			t.Errorf("the stream ends with %s", w.Body)
		}
	})
}

// ids are those of the whole events of a stream, and what they say.
func streamTexts(stream string) string {
	var all []string
	for _, m := range regexp.MustCompile(`"text":"(\w+)"`).FindAllStringSubmatch(stream, -1) {
		all = append(all, m[1])
	}
	return strings.Join(all, " ")
}

// resumeRun asks for what follows an event of session s.
func (e *env) resumeRun(app, event string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/run_sse", strings.NewReader(runBody(app, "s", "not said again")))
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

// TestResumeStream: a client that comes back with the id of the event that it saw last
// gets those that it missed, then those that come, until the invocation has ended;
// nothing is said again, and nothing of a later invocation is told.
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
			t.Errorf("caught up in the middle: %s", w.Body)
		}
		if took := time.Since(began); took < time.Second {
			t.Errorf("it took %s: the client did not wait for the end", took)
		}
		<-ended
		e.serve("POST", "/run", runBody("ticking", "s", "again"))
		if w := e.resumeRun("ticking", first); w.Code != 200 || streamTexts(w.Body.String()) != "two three" {
			t.Errorf("caught up at the end: %d %s", w.Code, w.Body)
		}
		if got := e.eventAuthors(t, key); got != "user ticking ticking ticking user ticking ticking ticking" {
			t.Errorf("stored: %s", got)
		}
		expectResponse(t, e.resumeRun("ticking", e.loadEvents(t, key)[3].ID), 200, "")
		expectResponse(t, e.resumeRun("ticking", "made-up"), 404, `{"detail":"Event not found: made-up"}`)
		expectResponse(t, e.resumeRun("other", first), 404, `{"detail":"Session not found"}`)
	})
}

// TestSlowBody: a client that takes too long for the body of its request, or gives
// up in the middle, is told so; the connection is not kept for it.
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

// TestDroppedClientIsLogged: the log says which client was dropped, and why.
func TestDroppedClientIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e := newEnv(t, &server.Options{WriteTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: server.NewMetrics("")})
		e.addFuncApp(t, "chatty", func(_ context.Context, say emitFunc) error {
			for say("more") {
			}
			return nil
		})
		e.createSession(t, "chatty", "s")
		w := &stuckWriter{ResponseRecorder: httptest.NewRecorder(), accepts: 2}
		e.server.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/run_sse", strings.NewReader(runBody("chatty", "s", "x"))))
		if !strings.Contains(log.String(), `msg="a client was dropped from its stream" app=chatty session=s reason=slow`) {
			t.Errorf("the log says: %s", &log)
		}
		if m := e.serve("GET", "/metrics", "").Body.String(); !strings.Contains(m, `agenthost_http_streams_dropped_total{reason="slow"} 1`) {
			t.Error("the metrics do not count it")
		}
	})
}

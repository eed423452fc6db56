package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

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

// A request body may have a byte order mark or be UTF-16, as Python's json.loads reads it.
func TestBodyCharsets(t *testing.T) {
	e := newEnv(t, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	e.createSession(t, "hello", "s")
	body := runBody("hello", "s", "ü")
	for name, encoder := range map[string]encoding.Encoding{
		"UTF-8 with a mark":             unicode.UTF8BOM,
		"UTF-16 with a mark":            unicode.UTF16(unicode.LittleEndian, unicode.UseBOM),
		"UTF-16 big endian with a mark": unicode.UTF16(unicode.BigEndian, unicode.UseBOM),
		"UTF-16 without a mark":         unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	} {
		text, err := encoder.NewEncoder().String(body)
		if err != nil {
			t.Fatal(err)
		}
		if w := e.serve("POST", "/run", text); w.Code != 200 || !strings.Contains(w.Body.String(), "Hello <ü>") {
			t.Errorf("%s: response = %d %s, want an answer", name, w.Code, w.Body)
		}
	}
	if w := e.serve("POST", "/run", "\xff\xfe{"); w.Code != 422 || !strings.Contains(w.Body.String(), "json_invalid") {
		t.Errorf("half a character: response = %d %s, want 422", w.Code, w.Body)
	}
}

// An event that cannot be encoded as JSON is an agent error, and a partial one, which is not
// stored, an internal error.
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
	expectResponse(t, e.serve("POST", "/run_sse", runBody("odd", "s", "x")), 200, `data: {"error":"internal error: see the host's log","errorCode":"INTERNAL","author":"odd"}`+"\n\n")
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

// An agent's panic fails its run. The response omits the cause.
func TestAgentPanics(t *testing.T) {
	e := newEnv(t, nil)
	e.addFuncApp(t, "hello", func(_ context.Context, emit emitFunc) error { panic("secret cause") })
	e.createSession(t, "hello", "s")
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", "x")), 500, `{"detail":"agent hello panicked"}`)
	expectResponse(t, e.serve("POST", "/run_sse", runBody("hello", "s", "x")), 200,
		`data: {"error":"agent hello panicked","errorCode":"AGENT_FAILED","author":"hello"}`+"\n\n")
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

// A client that disconnects cancels its run, whose last event is then the abort, unless the
// request has detach=true. A detached run stores its remaining events.
func TestDetach(t *testing.T) {
	for path, want := range map[string]string{
		"/run_sse": "user ticking ticking", "/run_sse?detach=true": "user ticking ticking ticking",
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

// A client stops a detached run of its session. The run stores that it was interrupted; runs of
// other sessions continue.
func TestStopDetachedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, nil)
		e.addFuncApp(t, "endless", func(ctx context.Context, emit emitFunc) error {
			emit("one")
			<-ctx.Done()
			return ctx.Err()
		})
		keys := []session.Key{e.createSession(t, "endless", "s"), e.createSession(t, "endless", "other")}
		done := make(chan string)
		for _, key := range keys {
			go func() {
				e.serve("POST", "/run_sse?detach=true", runBody("endless", key.ID, "x"))
				done <- key.ID
			}()
		}
		synctest.Wait()
		path := "/apps/endless/users/u/sessions/s/stop"
		expectResponse(t, e.serve("POST", path, ""), 200, "null")
		if got := <-done; got != "s" {
			t.Errorf("the run of session %s has ended", got)
		}
		sess, err := e.store.Sessions.Get(t.Context(), keys[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		if last := sess.Events()[len(sess.Events())-1]; last.ErrorCode != runtime.CodeAborted {
			t.Errorf("the last event has the error code %q", last.ErrorCode)
		}
		expectResponse(t, e.serve("POST", path, ""), 404, `{"detail":"no run of this session"}`)
		e.server.Abort()
		<-done
	})
}

// A detached run's context ends with the one that it is made of, or by Abort; that of another run by the
// first alone.
func TestStartRun(t *testing.T) {
	e := newEnv(t, nil)
	for _, detached := range []bool{false, true} {
		whole, cancel := context.WithCancel(t.Context())
		first, end, err := e.server.StartRun(whole, "app", "u", detached)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if first.Err() == nil {
			t.Errorf("detached %t: the context outlives its request's", detached)
		}
		end()
		second, end, err := e.server.StartRun(t.Context(), "app", "u", detached)
		if err != nil {
			t.Fatal(err)
		}
		if e.server.Abort(); (second.Err() != nil) != detached {
			t.Errorf("detached %t: the context ends with %v", detached, second.Err())
		}
		end()
	}
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

// A run that exceeds MaxRunTime is canceled. Its client receives an error that does not
// invite it to pay for another attempt, and the history has the reason.
func TestMaxRunTime(t *testing.T) {
	const limited = `"the turn exceeded its time limit of 1.5s"`
	for path, want := range map[string]string{
		"/run":     `{"detail":` + limited + `}`,
		"/run_sse": `data: {"error":` + limited + `,"errorCode":"TIME_LIMIT","author":"ticking"}` + "\n\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, &server.Options{MaxRunTime: 1500 * time.Millisecond})
			e.addFuncApp(t, "ticking", emitTicks)
			key := e.createSession(t, "ticking", "s")
			w := e.serve("POST", path, runBody("ticking", "s", "x"))
			if got := e.eventAuthors(t, key); got != "user ticking ticking ticking" {
				t.Errorf("stored: %s", got)
			}
			if !strings.HasSuffix(w.Body.String(), want) || w.Header().Get("Retry-After") != "" {
				t.Errorf("%s = %s with %v, want %s as the last frame and no Retry-After", path, w.Body, w.Header(), want)
			}
			if path == "/run" && w.Code != http.StatusGatewayTimeout {
				t.Errorf("status %d, want 504", w.Code)
			}
			stored := e.serve("GET", "/apps/ticking/users/u/sessions/s", "").Body.String()
			if !strings.Contains(stored, `"errorCode":"TIME_LIMIT","errorMessage":`+limited) {
				t.Errorf("session %s, want an event TIME_LIMIT", stored)
			}
		})
	}
}

// streamTexts returns the texts in a stream.
func streamTexts(stream string) string {
	var all []string
	for _, m := range regexp.MustCompile(`"text":"(\w+)"`).FindAllStringSubmatch(stream, -1) {
		all = append(all, m[1])
	}
	return strings.Join(all, " ")
}

// resumeRun resumes session s's stream after an event.
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

// A resumed stream sends the missed events, then new ones until the invocation ends. It sends
// no event twice and none from a later invocation.
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

// A rewind with an unknown key is rejected: ADK ignores unknown keys, but this request
// would remove turns and not do what the key asks for.
func TestRewindUnknownKey(t *testing.T) {
	e := newEnv(t, nil)
	e.addFuncApp(t, "ticking", emitTicks)
	key := e.createSession(t, "ticking", "s")
	w := e.serve("POST", "/apps/ticking/users/u/sessions/s/rewind", `{"eventId":"x","userContent":{"parts":[{"text":"x"}]}}`)
	expectResponse(t, w, 422, `{"detail":[{"type":"extra_forbidden","loc":["body","userContent"],"msg":"Extra inputs are not permitted"}]}`)
	if got := e.eventAuthors(t, key); got != "" {
		t.Errorf("stored: %s, want nothing", got)
	}
}

package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"agenthost/internal/servertest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/wing/devui"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "60/1m": "60/1m0s", "5/s": "5/1s", "1/24h": "1/24h0m0s",
		"60": `must be RUNS/TIME such as 60/1m, got "60"`, "0/1m": `must be RUNS/TIME such as 60/1m, got "0/1m"`,
		"x/1m": `must be RUNS/TIME such as 60/1m, got "x/1m"`, "1/-1s": `must be RUNS/TIME such as 60/1m, got "1/-1s"`,
	} {
		r, err := server.ParseRate(text)
		got := r.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("ParseRate(%q) = %s, want %s", text, got, want)
		}
	}
}

func parseRate(t *testing.T, text string) server.Rate {
	t.Helper()
	r, err := server.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOversizedBody(t *testing.T) {
	e := newEnv(t, &server.Options{MaxBody: 64})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	long := `{"state":{"k":"` + strings.Repeat("x", 64) + `"}}`
	for _, path := range []string{"/run", "/run_sse", "/apps/hello/preview", "/apps/hello/users/u/sessions", "/apps/hello/users/u/sessions/s"} {
		expectResponse(t, e.serve("POST", path, long), 413, `{"detail":"Request body exceeds the limit of 64 bytes"}`)
	}
	expectResponse(t, e.serve("PATCH", "/apps/hello/users/u/sessions/s", long), 413, `{"detail":"Request body exceeds the limit of 64 bytes"}`)
}

// A body with too many values is rejected even if it is small. Separators inside
// strings do not count.
func TestBodyWithTooManyValues(t *testing.T) {
	e := newEnv(t, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	const path, tooMany = "/apps/hello/users/u/sessions", `{"detail":"Request body exceeds the limit of 250000 values"}`
	for name, state := range map[string]string{
		"list":         `{"a":[` + strings.Repeat("0,", 250_000) + `0]}`,
		"nested lists": `{"a":` + strings.Repeat("[[],[[]],{}],", 60_000) + `0}`,
		"objects":      `{"a":[` + strings.Repeat(`{"a":1},`, 130_000) + `0]}`,
		"unterminated": `{"a":"\"` + strings.Repeat(`\\","b":"`, 260_000),
	} {
		expectResponse(t, e.serve("POST", path, `{"state":`+state+`}`), 413, tooMany)
		expectResponse(t, e.serve("POST", path+"/s", state), 413, tooMany)
		if t.Failed() {
			t.Fatal(name)
		}
	}
	for name, state := range map[string]string{
		"list":   `{"a":[` + strings.Repeat("0,", 200_000) + `0]}`,
		"string": `{"a":"` + strings.Repeat(`,[{\"`, 300_000) + `"}`,
	} {
		if w := e.serve("POST", path, `{"state":`+state+`}`); w.Code != 200 {
			t.Errorf("%s: %d %.100s", name, w.Code, w.Body)
		}
	}
}

// newObservedServer starts a server. The channel is closed after the given number of
// connections has been closed.
func newObservedServer(t *testing.T, e *env, connections int) (srv *httptest.Server, closed chan struct{}) {
	t.Helper()
	closed = make(chan struct{})
	srv = httptest.NewUnstartedServer(e.server)
	stateClosed := make(chan struct{}, connections)
	srv.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			stateClosed <- struct{}{}
		}
	}
	go func() {
		for range connections {
			<-stateClosed
		}
		close(closed)
	}()
	srv.Start()
	t.Cleanup(srv.Close)
	return srv, closed
}

// A promised body that does not arrive holds a connection no longer than
// Options.ReadTimeout, for any path and response.
func TestMissingRequestBody(t *testing.T) {
	opts := &server.Options{ReadTimeout: 50 * time.Millisecond, Extensions: []func(*server.Services) *server.Extension{devui.Extend(&devui.Options{Dev: true, Folders: &servertest.Folders{}})}}
	e := newEnv(t, opts)
	requests := []string{
		"GET /health", "GET /unknown", "PUT /run", "POST /run", "DELETE /apps/a/users/u/sessions/s", "POST /-/reload",
		"POST /builder/save HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x",
	}
	srv, closed := newObservedServer(t, e, len(requests))
	for _, request := range requests {
		if !strings.Contains(request, "HTTP/1.1") {
			request += " HTTP/1.1"
		}
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "%s\r\nHost: x\r\nContent-Length: 10\r\n\r\n{", request)
		if answer, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 ")) {
			t.Errorf("%s = %q, %v, want an answer", request, answer, err)
		}
	}
	<-closed
}

// A client that does not read holds its connection no longer than Options.WriteTimeout,
// for one large response or many small ones.
func TestUnreadResponse(t *testing.T) {
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 32 << 20}, &server.Options{WriteTimeout: 50 * time.Millisecond})
	key := session.Key{App: "large", User: "u", ID: "s"}
	if _, err := e.store.Sessions.Create(t.Context(), key, map[string]any{"k": strings.Repeat("x", 16<<20)}); err != nil {
		t.Fatal(err)
	}
	srv, closed := newObservedServer(t, e, 2)
	for _, requests := range []string{
		"GET /apps/large/users/u/sessions/s HTTP/1.1\r\nHost: x\r\n\r\n",
		strings.Repeat("GET /version HTTP/1.1\r\nHost: x\r\n\r\n", 100_000),
	} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() { _, _ = io.WriteString(conn, requests) }()
	}
	<-closed
}

// A client that reads slowly but steadily receives a large response completely, even if
// that takes longer than Options.WriteTimeout.
func TestSlowReader(t *testing.T) {
	const timeout, size = time.Second, 24 << 20
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 32 << 20}, &server.Options{WriteTimeout: timeout})
	key := session.Key{App: "large", User: "u", ID: "s"}
	if _, err := e.store.Sessions.Create(t.Context(), key, map[string]any{"k": strings.Repeat("x", size)}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// A small receive buffer makes the server wait for the client.
	if err := conn.(*net.TCPConn).SetReadBuffer(64 << 10); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "GET /apps/large/users/u/sessions/s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	each := time.NewTicker(timeout / 30)
	defer each.Stop()
	began, n := time.Now(), 0
	for chunk := make([]byte, 256<<10); err == nil; <-each.C {
		var read int
		read, err = io.ReadFull(conn, chunk)
		n += read
	}
	if took := time.Since(began); n < size || took < 2*timeout {
		t.Errorf("received %d bytes in %s, then %v; want the complete session in more than %s", n, took, err, 2*timeout)
	}
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

// Clients that request the same large session and do not read the response share one
// buffer.
func TestStalledReadersShareResponse(t *testing.T) {
	const size, readers = 8 << 20, 50
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 32 << 20}, &server.Options{MaxResponseBytes: 4 * (size + 1<<20)})
	key := session.Key{App: "large", User: "u", ID: "s"}
	if _, err := e.store.Sessions.Create(t.Context(), key, map[string]any{"k": strings.Repeat("x", size)}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.store.Sessions.Create(t.Context(), session.Key{App: "large", User: "u", ID: "t"}, map[string]any{"k": strings.Repeat("y", size)}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	before := heapBytes()
	for range readers {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /apps/large/users/u/sessions/s HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := io.ReadFull(conn, make([]byte, 64)); err != nil { // the response has started
			t.Fatal(err)
		}
	}
	if more := heapBytes() - before; more > 3*size {
		t.Errorf("%d stalled readers hold %d MiB, want at most %d", readers, more>>20, 3*size>>20)
	}

	// A second large session exceeds the user's share; small responses are still sent.
	resp, err := srv.Client().Get(srv.URL + "/apps/large/users/u/sessions/t")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	want := `{"detail":"too many large responses in progress, retry later"}`
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "5" || string(body) != want {
		t.Errorf("GET = %d, Retry-After %q, %.100s, want 503, 5, %s", resp.StatusCode, resp.Header.Get("Retry-After"), body, want)
	}
	resp, err = srv.Client().Get(srv.URL + "/version")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /version = %d", resp.StatusCode)
	}
}

// heapBytes returns the allocated heap after a garbage collection.
func heapBytes() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A request that exceeds a store limit gets 413, stores nothing and leaves the session
// usable. An agent that exceeds a limit ends its run with an error event.
func TestStoreLimits(t *testing.T) {
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 1 << 10, MaxEventBytes: 4 << 10, MaxSessionBytes: 16 << 10}, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: lengthModel{}})
	const path = "/apps/hello/users/u/sessions"
	long := func(n int) string { return strings.Repeat("x", n) }
	tooLarge := func(what string) string { return fmt.Sprintf(`{"detail":"%s"}`, what) }
	state := func(scope string) string { return tooLarge("state of the " + scope + " exceeds the limit of 1 KiB") }
	userEvent := func(text string) string {
		return fmt.Sprintf(`{"author":"user","content":{"role":"user","parts":[{"text":%q}]}}`, text)
	}

	expectResponse(t, e.serve("POST", path, `{"sessionId":"s","state":{"k":"`+long(2000)+`"}}`), 413, state("session"))
	expectResponse(t, e.serve("POST", path+"/s", `{"user:k":"`+long(2000)+`"}`), 413, state("user"))
	expectResponse(t, e.serve("POST", path, `{"sessionId":"s","events":[`+userEvent("hi")+`,`+userEvent(long(5000))+`]}`), 413, tooLarge("event exceeds the limit of 4 KiB"))
	if w := e.serve("GET", path+"/s", ""); w.Code != 404 {
		t.Errorf("GET = %d %s, want no session", w.Code, w.Body)
	}
	if w := e.serve("POST", path+"/s", `{"k":1}`); w.Code != 200 {
		t.Errorf("POST = %d %s", w.Code, w.Body)
	}
	before := e.serve("GET", path+"/s", "").Body.String()
	expectResponse(t, e.serve("PATCH", path+"/s", `{"stateDelta":{"app:k":"`+long(2000)+`"}}`), 413, state("app"))
	expectResponse(t, e.serve("POST", "/run", strings.TrimSuffix(runBody("hello", "s", "hi"), "}")+`,"stateDelta":{"k":"`+long(2000)+`"}}`), 413, state("session"))
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", long(5000))), 413, tooLarge("event exceeds the limit of 4 KiB"))
	if after := e.serve("GET", path+"/s", "").Body.String(); after != before {
		t.Errorf("the session is %s\nwant %s", after, before)
	}

	// The model responds with the requested number of characters.
	w := e.serve("POST", "/run_sse", runBody("hello", "s", "repeat 5000"))
	if !strings.Contains(w.Body.String(), `"errorCode":"EVENT_REFUSED"`) || !strings.Contains(w.Body.String(), "event exceeds the limit of 4 KiB") {
		t.Errorf("run = %d %.500s", w.Code, w.Body)
	}
	// The history records why the run ended, also for /run, and the next turn works.
	if w := e.serve("POST", "/run", runBody("hello", "s", "repeat 5000")); w.Code != 500 {
		t.Errorf("run = %d %.500s, want 500", w.Code, w.Body)
	}
	if got := e.serve("GET", path+"/s", "").Body.String(); strings.Count(got, `"errorCode":"EVENT_REFUSED","errorMessage":"an event of agent hello cannot be stored: event exceeds the limit of 4 KiB`) != 2 {
		t.Errorf("the session is %s\nwant two events EVENT_REFUSED", got)
	}
	for range 10 {
		w = e.serve("POST", "/run", runBody("hello", "s", "repeat 3000"))
		if w.Code != 200 {
			break
		}
	}
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", long(3000))), 413, tooLarge("session exceeds the limit of 16 KiB: start a new session"))
	e.createSession(t, "hello", "new")
	if w := e.serve("POST", "/run", runBody("hello", "new", "repeat 10")); w.Code != 200 {
		t.Errorf("run in a new session = %d %s", w.Code, w.Body)
	}
}

// lengthModel responds to "repeat N" with N+1 characters.
type lengthModel struct{}

func (lengthModel) Name() string { return "length" }

func (lengthModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		last := req.Contents[len(req.Contents)-1]
		var n int
		fmt.Sscanf(last.Parts[0].Text, "repeat %d", &n)
		yield(&model.Response{Content: model.ModelText(strings.Repeat("x", n+1))}, nil)
	}
}

package server_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// reportingReloader is a reloader with one app and a report list.
type reportingReloader struct {
	fakeReloader
	reports []server.Report
	more    chan struct{}
}

func (n *reportingReloader) Reports(after int) ([]server.Report, <-chan struct{}) {
	return n.reports[after:], n.more
}

// changeStream reads the GET /-/changes events.
type changeStream struct {
	*testing.T
	lines *bufio.Reader
	body  io.Closer
}

func openChangeStream(t *testing.T, url string) *changeStream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/-/changes", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("Content-Type = %q", got)
	}
	return &changeStream{t, bufio.NewReader(resp.Body), resp.Body}
}

func (f *changeStream) expectFrame(frame string) {
	f.Helper()
	line, err := f.lines.ReadString('\n')
	if err != nil {
		f.Fatal(err)
	}
	if got := strings.TrimSpace(strings.TrimPrefix(line, "data: ")); got != frame {
		f.Errorf("frame = %s\nwant    %s", got, frame)
	}
	if _, err := f.lines.Discard(1); err != nil {
		f.Fatal(err)
	}
}

// A client receives the status of all apps on connect, including apps built in Go code,
// and then each report. The stream ends when the server drains, and new streams are
// rejected.
func TestChanges(t *testing.T) {
	reloader := &reportingReloader{fakeReloader: fakeReloader{"hello": {App: "hello", Revision: "r1", OK: true}}, more: make(chan struct{})}
	e := newEnv(t, &server.Options{Version: "1.2.3", Reloader: reloader})
	e.addLLMApp(t, "built", &runtime.LLMOptions{Model: scriptedModel(t)})
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	f := openChangeStream(t, srv.URL)
	defer f.body.Close()
	f.expectFrame(`{"version":"1.2.3","apps":[{"app":"built","revision":"","ok":true,"diagnostics":[]},{"app":"hello","revision":"r1","ok":true,"diagnostics":[]}],"reports":[]}`)

	published := reloader.more
	reloader.fakeReloader["hello"] = server.Status{App: "hello", Revision: "r2", OK: true}
	reloader.reports = []server.Report{{
		Number: 1, App: "hello", Time: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), What: "loaded", From: "r1", To: "r2",
		Changes: []server.Difference{{Where: "agent hello", Field: "instruction", What: "changed", Before: "a", After: "b"}}, Files: []string{"root_agent.yaml"},
	}}
	reloader.more = make(chan struct{})
	close(published)
	f.expectFrame(`{"version":"1.2.3","apps":[{"app":"built","revision":"","ok":true,"diagnostics":[]},{"app":"hello","revision":"r2","ok":true,"diagnostics":[]}],` +
		`"reports":[{"number":1,"app":"hello","time":"2026-11-21T10:00:00Z","what":"loaded","from":"r1","to":"r2",` +
		`"changes":[{"where":"agent hello","field":"instruction","what":"changed","before":"a","after":"b"}],"files":["root_agent.yaml"]}]}`)

	e.server.Drain()
	if _, err := f.lines.ReadByte(); err != io.EOF {
		t.Errorf("the stream did not end: %v", err)
	}
	expectResponse(t, e.serve("GET", "/-/changes", ""), 503, `{"detail":"server is shutting down, retry later"}`)
}

// The number of open change streams is limited. A closed stream frees its slot.
func TestChangeStreamLimit(t *testing.T) {
	e := newEnv(t, &server.Options{MaxChangeStreams: 2})
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	first, second := openChangeStream(t, srv.URL), openChangeStream(t, srv.URL)
	defer second.body.Close()
	w := e.serve("GET", "/-/changes", "")
	expectResponse(t, w, 503, `{"detail":"too many open change streams (limit 2), retry later"}`)
	if got := w.Header().Get("Retry-After"); got != "5" {
		t.Errorf("Retry-After = %q, want 5", got)
	}
	first.body.Close()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	for deadline := time.After(10 * time.Second); w.Code != 200; {
		select {
		case <-deadline:
			t.Fatalf("GET after a stream was closed = %d, want 200", w.Code)
		default:
			w = httptest.NewRecorder()
			e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/-/changes", nil))
		}
	}
}

// A server without a reloader has a change stream too.
func TestChangesWithoutReloader(t *testing.T) {
	e := newEnv(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/-/changes", nil))
	expectResponse(t, w, 200, `data: {"version":"dev","apps":[],"reports":[]}`+"\n\n")
}

// A held revision has not failed: readiness, diagnostics and a reload name it with the reason.
func TestReloadHeld(t *testing.T) {
	held := server.Status{App: "desk", Revision: "rev-old", Waiting: "rev-new", Held: "rollout at 5 %"}
	e := newEnv(t, &server.Options{Reloader: servertest.Reloader{"desk": held}})
	e.addLLMApp(t, "desk", &runtime.LLMOptions{Model: scriptedModel(t)})
	expectResponse(t, e.serve("GET", "/readyz", ""), 200,
		`{"ready":true,"reasons":["app desk: revision rev-new is held, revision rev-old stays active: rollout at 5 %"]}`)
	const status = `{"app":"desk","revision":"rev-old","ok":false,"waiting":"rev-new","held":"rollout at 5 %","diagnostics":[]}`
	expectResponse(t, e.serve("GET", "/apps/desk/diagnostics", ""), 200, status)
	expectResponse(t, e.serve("POST", "/-/reload", ""), 200,
		`{"changed":[{"app":"hello","revision":"rev-next","ok":true,"diagnostics":[]}],"failed":[],"removed":[],"held":[`+status+`]}`)
}

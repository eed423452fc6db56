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

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// reportingReloader is a reloader with one app and what was told of it.
type reportingReloader struct {
	fakeReloader
	reports []server.Report
	more    chan struct{}
}

func (n *reportingReloader) Reports(after int) ([]server.Report, <-chan struct{}) {
	return n.reports[after:], n.more
}

// changeStream reads a stream of changes, frame by frame.
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

// Who listens is told at once how all apps are, those that Go code built too,
// and then of each change, with what agents say otherwise. When the host is
// about to stop, the stream ends, and there is no new one.
func TestChanges(t *testing.T) {
	news := &reportingReloader{fakeReloader: fakeReloader{"hello": {App: "hello", Revision: "r1", OK: true}}, more: make(chan struct{})}
	e := newEnv(t, &server.Options{Version: "1.2.3", Reloader: news})
	e.addLLMApp(t, "built", &runtime.LLMOptions{Model: scriptedModel(t)})
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	f := openChangeStream(t, srv.URL)
	defer f.body.Close()
	f.expectFrame(`{"version":"1.2.3","apps":[{"app":"built","revision":"","ok":true,"diagnostics":[]},{"app":"hello","revision":"r1","ok":true,"diagnostics":[]}],"reports":[]}`)

	told := news.more
	news.fakeReloader["hello"] = server.Status{App: "hello", Revision: "r2", OK: true}
	news.reports = []server.Report{{
		Number: 1, App: "hello", Time: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), What: "loaded", From: "r1", To: "r2",
		Changes: []server.Difference{{Where: "agent hello", Field: "instruction", What: "changed", Before: "a", After: "b"}}, Files: []string{"root_agent.yaml"},
	}}
	news.more = make(chan struct{})
	close(told)
	f.expectFrame(`{"version":"1.2.3","apps":[{"app":"built","revision":"","ok":true,"diagnostics":[]},{"app":"hello","revision":"r2","ok":true,"diagnostics":[]}],` +
		`"reports":[{"number":1,"app":"hello","time":"2026-11-21T10:00:00Z","what":"loaded","from":"r1","to":"r2",` +
		`"changes":[{"where":"agent hello","field":"instruction","what":"changed","before":"a","after":"b"}],"files":["root_agent.yaml"]}]}`)

	e.server.Drain()
	if _, err := f.lines.ReadByte(); err != io.EOF {
		t.Errorf("the stream did not end: %v", err)
	}
	expectResponse(t, e.serve("GET", "/-/changes", ""), 503, `{"detail":"the host is about to stop: try again"}`)
}

// Only so many streams are open at a time. Whoever comes then is told to come again,
// and has the place of one that has left.
func TestChangeStreamLimit(t *testing.T) {
	e := newEnv(t, &server.Options{MaxChangeStreams: 2})
	srv := httptest.NewServer(e.server)
	defer srv.Close()
	first, second := openChangeStream(t, srv.URL), openChangeStream(t, srv.URL)
	defer second.body.Close()
	w := e.serve("GET", "/-/changes", "")
	expectResponse(t, w, 503, `{"detail":"as many streams of changes are open as the host has: close a page of it, or try again"}`)
	if got := w.Header().Get("Retry-After"); got != "5" {
		t.Errorf("Retry-After = %q, want 5", got)
	}
	first.body.Close()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	for deadline := time.After(10 * time.Second); w.Code != 200; {
		select {
		case <-deadline:
			t.Fatalf("the place of one that has left is not free: %d", w.Code)
		default:
			w = httptest.NewRecorder()
			e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/-/changes", nil))
		}
	}
}

// A host without files has a page too.
func TestChangesWithoutReloader(t *testing.T) {
	e := newEnv(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/-/changes", nil))
	expectResponse(t, w, 200, `data: {"version":"dev","apps":[],"reports":[]}`+"\n\n")
}

package server_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// loadsReloader is a reloader that knows how two apps were loaded.
type loadsReloader struct{ server.Reloader }

func (loadsReloader) Statuses() []server.Status {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return []server.Status{
		{App: "broken", Loads: server.Loads{Last: at, All: 2, Failed: 2}, Diagnostics: spec.Diagnostics{{Message: "bad"}}},
		{App: "hello", OK: true, Loads: server.Loads{Last: at, Good: at, All: 3, Failed: 1}},
	}
}

// TestMetrics: what was done is counted by app, model and tool, how apps were
// loaded by app, and requests by route. Names that callers make up are in no
// label: each would be a series for ever. The clock stands still, so that nothing
// took any time.
func TestMetrics(t *testing.T) {
	e := newEnv(t, &server.Options{Metrics: server.NewMetrics("v1"), Reloader: loadsReloader{}, AutoCreateSession: true})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t), Tools: []tool.Tool{saveNoteTool(t)}})
	for _, text := range []string{"hi", "save", "fail"} {
		e.serve("POST", "/run", runBody("hello", "s", text))
	}
	e.serve("POST", "/run_sse", runBody("hello", "s", "count"))
	e.serve("POST", "/run", runBody("made-up", "s", "hi"))
	e.serve("GET", "/made/up", "")
	w := e.serve("GET", "/metrics", "")
	if w.Code != http.StatusOK {
		t.Fatalf("GET /metrics = %d", w.Code)
	}
	// Buckets say nothing where nothing took any time, and the size of a session
	// is not what this is about.
	boring := regexp.MustCompile(`_bucket|cache_bytes|build_info`)
	var got strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "agenthost_") && !boring.MatchString(line) {
			got.WriteString(line)
		}
	}
	const file = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("GET /metrics (-want +got):\n%s", diff)
	}
}

// BenchmarkObserve is what the metrics take of a turn: one run, agent and model.
func BenchmarkObserve(b *testing.B) {
	m, at := server.NewMetrics(""), time.Now()
	run := &runtime.TracedRun{App: "hello"}
	spans := []*runtime.Span{
		{Kind: runtime.SpanModel, Name: "m", Run: run, Start: at, End: at, Model: &runtime.TracedModel{First: at}},
		{Kind: runtime.SpanAgent, Name: "a", Run: run, Start: at, End: at},
		{Kind: runtime.SpanRun, Name: "hello", Run: run, Start: at, End: at},
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range spans {
			m.Observe(s)
		}
	}
}

// TestCallersTrace: the spans of a run belong to the trace of its caller, if a
// header tells of one, and to one of their own if not.
func TestCallersTrace(t *testing.T) {
	var parents []string
	opts := &server.Options{AutoCreateSession: true}
	e := newEnv(t, opts)
	host := runtime.NewHost(e.store, &runtime.Options{Observe: func(s *runtime.Span) {
		if s.Kind == runtime.SpanRun {
			parents = append(parents, s.Parent.SpanID().String()+" "+s.Parent.TraceID().String())
		}
	}})
	defer host.Close()
	app, err := runtime.NewApp("hello", runtime.NewLLM("hello", &runtime.LLMOptions{Model: scriptedModel(t)}), nil)
	if err != nil {
		t.Fatal(err)
	}
	host.Swap(app)
	srv := server.New(host, opts)
	for _, header := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "", "nonsense"} {
		r := httptest.NewRequest("POST", "/run", strings.NewReader(runBody("hello", "s", "hi")))
		r.Header.Set("Traceparent", header)
		srv.ServeHTTP(httptest.NewRecorder(), r)
	}
	const none = "0000000000000000 00000000000000000000000000000000"
	if diff := cmp.Diff([]string{"b7ad6b7169203331 0af7651916cd43dd8448eb211c80319c", none, none}, parents); diff != "" {
		t.Errorf("parents (-want +got):\n%s", diff)
	}
}

// TestMetricsOfTwoServers: two servers over one Metrics answer GET /metrics, each with the turns of
// both and the apps of its own host.
func TestMetricsOfTwoServers(t *testing.T) {
	m := server.NewMetrics("v1")
	for _, app := range []string{"first", "second"} {
		e := newEnv(t, &server.Options{Metrics: m})
		e.addLLMApp(t, app, &runtime.LLMOptions{Model: scriptedModel(t)})
		w := e.serve("GET", "/metrics", "")
		if w.Code != 200 || !strings.Contains(w.Body.String(), `agenthost_app_info{app="`+app+`"`) || strings.Count(w.Body.String(), "agenthost_app_info{") != 1 {
			t.Errorf("GET /metrics of the %s server = %d %s", app, w.Code, w.Body)
		}
	}
}

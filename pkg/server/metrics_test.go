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
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// loadsReloader is a reloader with the load counts of two apps.
type loadsReloader struct{ server.Reloader }

func (loadsReloader) Statuses() []server.Status {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return []server.Status{
		{App: "broken", Loads: server.Loads{Last: at, All: 2, Failed: 2}, Diagnostics: spec.Diagnostics{{Message: "bad"}}},
		{App: "hello", OK: true, Loads: server.Loads{Last: at, Good: at, All: 3, Failed: 1}},
	}
}

// Metrics count runs by app, model and tool, reloads by app, and requests by route.
// Names invented by callers are not used as labels. The clock is fixed, so that all
// durations are 0.
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
	// With a fixed clock all buckets are equal; the size of sessions is not tested here.
	ignored := regexp.MustCompile(`_bucket|cache_bytes|build_info`)
	var got strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "agenthost_") && !ignored.MatchString(line) {
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

// BenchmarkObserve measures the cost of the metrics of one turn: a run and a model call.
func BenchmarkObserve(b *testing.B) {
	m, at := server.NewMetrics(""), time.Now()
	turn := []runtime.Measurement{
		{Kind: runtime.MeasuredModel, App: "hello", Name: "m", Start: at, End: at, FirstChunk: at},
		{Kind: runtime.MeasuredRun, App: "hello", Start: at, End: at},
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, measured := range turn {
			m.Observe(measured)
		}
	}
}

// The spans of a run continue the trace in the Traceparent header, or start a new
// trace.
func TestCallersTrace(t *testing.T) {
	ended := tracetest.NewSpanRecorder()
	opts := &server.Options{AutoCreateSession: true}
	e := newEnv(t, opts)
	host := runtime.NewHost(e.store, &runtime.Options{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(ended))})
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
	var parents []string
	for _, s := range ended.Ended() {
		if s.Name() == "invocation" {
			parents = append(parents, s.Parent().SpanID().String()+" "+s.Parent().TraceID().String())
		}
	}
	const none = "0000000000000000 00000000000000000000000000000000"
	if diff := cmp.Diff([]string{"b7ad6b7169203331 0af7651916cd43dd8448eb211c80319c", none, none}, parents); diff != "" {
		t.Errorf("parents (-want +got):\n%s", diff)
	}
}

// Two servers that share Metrics each serve the runs of both and the apps of their own
// host.
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

package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/wing/gemini"
)

// loadsReloader is a reloader with two apps' load counts.
type loadsReloader struct{ server.Reloader }

func (loadsReloader) Statuses() []server.Status {
	at := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	return []server.Status{
		{App: "broken", Unreadable: "folder not found", Loads: server.Loads{Last: at, All: 2, Failed: 2}, Diagnostics: spec.Diagnostics{{Message: "bad"}}},
		{App: "hello", OK: true, Loads: server.Loads{Last: at, Good: at, All: 3, Failed: 1}},
	}
}

// Folders returns three folders, two with the same base name.
func (loadsReloader) Folders() []server.FolderStatus {
	return []server.FolderStatus{{Name: "apps"}, {Name: "more"}, {Name: "apps", Unreadable: "folder not found"}}
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
	// With a fixed clock all buckets are equal; session sizes are not tested here.
	ignored := regexp.MustCompile(`_bucket|cache_bytes|build_info`)
	var got strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "agenthost_") && !ignored.MatchString(line) {
			got.WriteString(line)
		}
	}
	const file = "testdata/metrics.txt"
	if testenv.IsUpdating() {
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

// A turn's tokens and cost are on its stored events, on its spans and in the metrics,
// streamed or not: here for two calls, with cached tokens and thoughts.
func TestCostOfTurn(t *testing.T) {
	call := fakegemini.Parts(&genai.Part{FunctionCall: &genai.FunctionCall{Name: "save_note", Args: map[string]any{"text": "x"}}})
	call.Usage = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 1000, CachedContentTokenCount: 400, CandidatesTokenCount: 50, ThoughtsTokenCount: 150}
	answer := fakegemini.Text("It is ", "saved.")
	answer.Usage = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 2000, CandidatesTokenCount: 10}
	want := []string{
		"event: 1000 with 400 cached, 50 and 150 thoughts, $0.0034",
		"event: 2000 with 0 cached, 10 and 0 thoughts, $0.0041",
		"span: 1000, 200, $0.0034",
		"span: 2000, 10, $0.0041",
		`model_cost_usd_total{app="hello",model="gemini-x"} 0.0075`,
		`model_tokens_total{app="hello",kind="cached",model="gemini-x"} 400`,
		`model_tokens_total{app="hello",kind="input",model="gemini-x"} 3000`,
		`model_tokens_total{app="hello",kind="output",model="gemini-x"} 60`,
		`model_tokens_total{app="hello",kind="thoughts",model="gemini-x"} 150`,
	}
	for _, path := range []string{"/run", "/run_sse"} {
		t.Run(path, func(t *testing.T) {
			fake := fakegemini.New()
			defer fake.Close()
			fake.Enqueue(call, answer)
			llm := gemini.New("gemini-x", &gemini.Options{APIKey: "test-key", BaseURL: fake.URL(), HTTP: fake.Client()})
			e, spans := newTracedEnv(t)
			e.addLLMApp(t, "hello", &runtime.LLMOptions{
				Model: provider.WithPrice(llm, &provider.Price{Input: 2, Cached: 0.5, Output: 10}), Tools: []tool.Tool{saveNoteTool(t)},
			})
			body := strings.Replace(runBody("hello", "s", "hi"), "{", `{"streaming":true,`, 1)
			if w := e.serve("POST", path, body); w.Code != http.StatusOK {
				t.Fatalf("POST %s = %d %s", path, w.Code, w.Body)
			}
			got := slices.Concat(eventCosts(t, e), spanCosts(spans), metricLines(e, "agenthost_model_cost|agenthost_model_tokens"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("costs (-want +got):\n%s", diff)
			}
		})
	}
}

// newTracedEnv returns a server with metrics, and its host's spans.
func newTracedEnv(t *testing.T) (*env, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	opts := &server.Options{Metrics: server.NewMetrics("v1"), AutoCreateSession: true}
	e := newEnv(t, opts)
	host := runtime.NewHost(e.store, &runtime.Options{
		Observe: opts.Metrics.Observe, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
	})
	t.Cleanup(host.Close)
	return wrapEnv(&servertest.Env{Host: host, Store: e.store, Server: server.New(host, opts)}), spans
}

// eventCosts lists the tokens and costs on the stored events.
func eventCosts(t *testing.T, e *env) (costs []string) {
	t.Helper()
	var stored struct {
		Events []struct {
			Usage    *genai.GenerateContentResponseUsageMetadata `json:"usageMetadata"`
			Metadata map[string]map[string]any                   `json:"customMetadata"`
		} `json:"events"`
	}
	w := e.serve("GET", "/apps/hello/users/u/sessions/s", "")
	if err := json.Unmarshal(w.Body.Bytes(), &stored); err != nil {
		t.Fatal(err)
	}
	for _, ev := range stored.Events {
		if u := ev.Usage; u != nil {
			costs = append(costs, fmt.Sprintf("event: %d with %d cached, %d and %d thoughts, $%v",
				u.PromptTokenCount, u.CachedContentTokenCount, u.CandidatesTokenCount, u.ThoughtsTokenCount, ev.Metadata["model_cost"]["usd"]))
		}
	}
	return costs
}

// spanCosts lists the tokens and costs on the model call spans.
func spanCosts(spans *tracetest.SpanRecorder) (costs []string) {
	for _, s := range spans.Ended() {
		set := attribute.NewSet(s.Attributes()...)
		if usd, ok := set.Value(runtime.AttrCost); ok {
			input, _ := set.Value(runtime.AttrInputTokens)
			output, _ := set.Value(runtime.AttrOutputTokens)
			costs = append(costs, fmt.Sprintf("span: %d, %d, $%v", input.AsInt64(), output.AsInt64(), usd.AsFloat64()))
		}
	}
	return costs
}

// metricLines returns the lines in /metrics that begin with a pattern, without prefix.
func metricLines(e *env, pattern string) (lines []string) {
	matching := regexp.MustCompile("^(" + pattern + ")")
	for line := range strings.Lines(e.serve("GET", "/metrics", "").Body.String()) {
		if matching.MatchString(line) {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(line, "agenthost_")))
		}
	}
	return lines
}

// BenchmarkObserve measures what one turn's metrics cost: a run and a model call.
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

// A run's spans continue the trace in the Traceparent header, or start a new trace.
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

// An extension's metrics are served with the server's, and it observes the host's
// measurements.
func TestMetricsOfExtension(t *testing.T) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "agenthost", Name: "shop_runs_total", Help: "Runs."}, []string{"app"})
	extend := func(*server.Services) *server.Extension {
		return &server.Extension{Metrics: []prometheus.Collector{calls}, Observe: func(m runtime.Measurement) {
			if m.Kind == runtime.MeasuredRun {
				calls.WithLabelValues(m.App).Inc()
			}
		}}
	}
	e := newEnv(t, &server.Options{Metrics: server.NewMetrics(""), AutoCreateSession: true, Extensions: []func(*server.Services) *server.Extension{extend}})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	for range 2 {
		e.serve("POST", "/run", runBody("hello", "s", "hi"))
	}
	if got, want := metricLines(e, "agenthost_shop"), []string{`shop_runs_total{app="hello"} 2`}; !slices.Equal(got, want) {
		t.Errorf("metrics %q, want %q", got, want)
	}
}

// Two servers that share Metrics each serve the runs on both and the apps on their own host.
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

package server

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/genai"

	"agenthost/pkg/runtime"
)

// codeOK is the label code of a success.
const codeOK = "OK"

// Metrics collects the metrics of a host for Prometheus. Create it before the host,
// pass Observe as [runtime.Options.Observe], and pass it to the servers that serve GET
// /metrics. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	runs            metricCache[labels, runMetrics]
	models, tools   metricCache[labels, callMetrics]
	firstChunk      metricCache[labels, prometheus.Observer]
	requests        metricCache[requestLabels, callMetrics]
	tokens, dropped *prometheus.CounterVec
	streams         prometheus.Gauge
}

// NewMetrics returns the metrics of a program of the given version.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.addGauge("build_info", "Always 1; the label is the version.", prometheus.Labels{"version": version}).Set(1)

	runs := m.addCounter("runs_total", "Completed turns by result: OK or an error code.", "app", "code")
	runTime := m.addHistogram("run_duration_seconds", "Duration of turns, including the wait for the session.", "app")
	wait := m.addHistogram("session_wait_seconds", "Time that turns waited for other turns of their session.", "app")
	m.runs.find = func(l labels) runMetrics {
		return runMetrics{callMetrics{runs.WithLabelValues(l.app, l.code), runTime.WithLabelValues(l.app)}, wait.WithLabelValues(l.app)}
	}
	m.models.find = m.addCallMetrics("model", "Model calls (steps) by result.", "Duration of model calls until the complete response.")
	m.tools.find = m.addCallMetrics("tool", "Tool calls by result: OK or TOOL_FAILED.", "Duration of tool calls.")
	firstChunk := m.addHistogram("model_first_chunk_seconds", "Time until the first chunk of a model response.", "app", "model")
	m.firstChunk.find = func(l labels) prometheus.Observer { return firstChunk.WithLabelValues(l.app, l.name) }
	m.tokens = m.addCounter("model_tokens_total", "Tokens reported by models; the kind cached is included in input.", "app", "model", "kind")
	requests := m.addCounter("http_requests_total", "HTTP requests.", "route", "status")
	requestTime := m.addHistogram("http_request_duration_seconds", "Duration of HTTP requests, of streams until their end.", "route")
	m.requests.find = func(l requestLabels) callMetrics {
		return callMetrics{requests.WithLabelValues(l.pattern, strconv.Itoa(l.status)), requestTime.WithLabelValues(l.pattern)}
	}
	m.streams = m.addGauge("http_streams_open", "Open event streams.", nil)
	m.dropped = m.addCounter("http_streams_dropped_total", "Event streams that ended early by reason: gone (client disconnected) or slow (write timeout).", "reason")
	return m
}

func (m *Metrics) addCounter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "agenthost", Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) addGauge(name, help string, labels prometheus.Labels) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "agenthost", Name: name, Help: help, ConstLabels: labels})
	m.registry.MustRegister(g)
	return g
}

// addHistogram uses buckets from 1 ms to 5 minutes, because turns with tools take long.
func (m *Metrics) addHistogram(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "agenthost", Name: name, Help: help,
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
	}, labels)
	m.registry.MustRegister(h)
	return h
}

// addCallMetrics adds a counter and a histogram for calls of models or tools.
func (m *Metrics) addCallMetrics(kind, countHelp, durationHelp string) (find func(labels) callMetrics) {
	all := m.addCounter(kind+"_calls_total", countHelp, "app", kind, "code")
	took := m.addHistogram(kind+"_call_duration_seconds", durationHelp, "app", kind)
	return func(l labels) callMetrics {
		return callMetrics{all.WithLabelValues(l.app, l.name, l.code), took.WithLabelValues(l.app, l.name)}
	}
}

// Observe records a span.
func (m *Metrics) Observe(s *runtime.Span) {
	took := s.End.Sub(s.Start).Seconds()
	switch s.Kind {
	case runtime.SpanRun:
		m.observeRun(s, took)
	case runtime.SpanModel:
		app := s.App()
		m.models.get(labels{app, s.Name, spanCode(s)}).observe(took)
		if first := s.Model.First; !first.IsZero() {
			m.firstChunk.get(labels{app: app, name: s.Name}).Observe(first.Sub(s.Start).Seconds())
		}
		if r := s.Model.Response; r != nil && r.UsageMetadata != nil {
			m.observeTokens(app, s.Name, r.UsageMetadata)
		}
	case runtime.SpanTool:
		m.tools.get(labels{s.App(), s.Name, spanCode(s)}).observe(took)
	}
}

// observeRun omits the names of unknown apps: callers could invent any number of label
// values.
func (m *Metrics) observeRun(s *runtime.Span, took float64) {
	l := labels{app: s.Name, code: spanCode(s)}
	if l.code == runtime.CodeAppNotFound {
		l.app = ""
	}
	r := m.runs.get(l)
	r.observe(took)
	r.wait.Observe(s.Run.Wait.Seconds())
}

func spanCode(s *runtime.Span) string { return cmp.Or(s.Code(), codeOK) }

func (m *Metrics) observeTokens(app, model string, u *genai.GenerateContentResponseUsageMetadata) {
	for _, t := range [...]struct {
		kind string
		n    int32
	}{
		{"input", u.PromptTokenCount},
		{"cached", u.CachedContentTokenCount},
		{"output", u.CandidatesTokenCount},
		{"thoughts", u.ThoughtsTokenCount},
		{"tool_input", u.ToolUsePromptTokenCount},
	} {
		if t.n > 0 {
			m.tokens.WithLabelValues(app, model, t.kind).Add(float64(t.n))
		}
	}
}

// observeRequest records a response. Requests without a route have an empty pattern.
func (m *Metrics) observeRequest(pattern string, status int, took time.Duration) {
	m.requests.get(requestLabels{pattern, status}).observe(took.Seconds())
}

// trackStream counts an open stream until end is called.
func (m *Metrics) trackStream(st *stream) (end func()) {
	if m == nil {
		return func() {}
	}
	m.streams.Inc()
	return func() {
		m.streams.Dec()
		if st.writeErr != nil {
			m.dropped.WithLabelValues(st.dropReason()).Inc()
		}
	}
}

// newHandler serves GET /metrics, including the state metrics of one server.
func (m *Metrics) newHandler(states *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, states}, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

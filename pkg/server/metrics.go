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

// codeOK stands for no error in the label code.
const codeOK = "OK"

// Metrics count what a host does, for Prometheus. They are made before the host,
// which tells them of its runs ([runtime.Options.Observe]), and given to
// servers, which answer GET /metrics with them and with their own states. Many goroutines may use them.
type Metrics struct {
	registry *prometheus.Registry

	runs            metricCache[labels, runMetrics]
	models, tools   metricCache[labels, callMetrics]
	firstChunk      metricCache[labels, prometheus.Observer]
	requests        metricCache[requestLabels, callMetrics]
	tokens, dropped *prometheus.CounterVec
	streams         prometheus.Gauge
}

// NewMetrics makes metrics of a program of this version.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.addGauge("build_info", "Always 1; the label tells the version.", prometheus.Labels{"version": version}).Set(1)

	runs := m.addCounter("runs_total", "Turns that have ended, by how: OK or the code of their error.", "app", "code")
	runTime := m.addHistogram("run_duration_seconds", "How long turns took, waiting included.", "app")
	wait := m.addHistogram("session_wait_seconds", "How long turns waited for other turns of their session.", "app")
	m.runs.find = func(l labels) runMetrics {
		return runMetrics{callMetrics{runs.WithLabelValues(l.app, l.code), runTime.WithLabelValues(l.app)}, wait.WithLabelValues(l.app)}
	}
	m.models.find = m.addCallMetrics("model", "Calls of models (steps), by how they ended.", "How long models took for their whole answer.")
	m.tools.find = m.addCallMetrics("tool", "Calls of tools, by how they ended: OK or TOOL_FAILED.", "How long tools took.")
	firstPiece := m.addHistogram("model_first_piece_seconds", "How long models took for the first piece of their answer.", "app", "model")
	m.firstChunk.find = func(l labels) prometheus.Observer { return firstPiece.WithLabelValues(l.app, l.name) }
	m.tokens = m.addCounter("model_tokens_total", "Tokens that models told of; those of the kind cached are also in input.", "app", "model", "kind")
	requests := m.addCounter("http_requests_total", "Requests that were answered.", "route", "status")
	requestTime := m.addHistogram("http_request_duration_seconds", "How long answers took, streams until their end.", "route")
	m.requests.find = func(l requestLabels) callMetrics {
		return callMetrics{requests.WithLabelValues(l.route, strconv.Itoa(l.status)), requestTime.WithLabelValues(l.route)}
	}
	m.streams = m.addGauge("http_streams_open", "Streams of events that are open.", nil)
	m.dropped = m.addCounter("http_streams_dropped_total", "Streams that ended early, by why: the client left, or was too slow.", "reason")
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

// addHistogram has buckets from a millisecond to five minutes: turns with tools
// take long.
func (m *Metrics) addHistogram(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "agenthost", Name: name, Help: help,
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
	}, labels)
	m.registry.MustRegister(h)
	return h
}

// addCallMetrics makes the metrics of what agents call.
func (m *Metrics) addCallMetrics(what, calls, time string) (find func(labels) callMetrics) {
	all := m.addCounter(what+"_calls_total", calls, "app", what, "code")
	took := m.addHistogram(what+"_call_duration_seconds", time, "app", what)
	return func(l labels) callMetrics {
		return callMetrics{all.WithLabelValues(l.app, l.name, l.code), took.WithLabelValues(l.app, l.name)}
	}
}

// Observe takes a span in.
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

// observeRun leaves out the names of apps that are not there: anybody can make
// those up, and each would be a series for ever.
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

// observeRequest takes an answer in. A path without a route has none in the
// metrics either.
func (m *Metrics) observeRequest(route string, status int, took time.Duration) {
	m.requests.get(requestLabels{route, status}).observe(took.Seconds())
}

// trackStream counts a stream until the end is called.
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

// newHandler answers GET /metrics, with the states of one server.
func (m *Metrics) newHandler(states *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(prometheus.Gatherers{m.registry, states}, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

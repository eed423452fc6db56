package server

import (
	"cmp"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// codeOK is the label code for a success.
const codeOK = "OK"

// Metrics collects a host's metrics for Prometheus. Create it before the host, pass Observe
// as [runtime.Options.Observe], and pass it to the servers that serve GET /metrics. It is
// safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	runs            metricCache[labels, runMetrics]
	models, tools   metricCache[labels, callMetrics]
	firstChunk      metricCache[labels, prometheus.Observer]
	requests        metricCache[requestLabels, callMetrics]
	tokens, dropped *prometheus.CounterVec
	agentTokens     *prometheus.CounterVec
	agentCalls      *prometheus.CounterVec
	retries, cost   *prometheus.CounterVec
	streams         prometheus.Gauge

	mu sync.RWMutex
	// observers belong to extensions; the list only grows.
	observers []func(runtime.Measurement)
}

// NewMetrics returns the metrics for a program with the given version.
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
	m.agentTokens = m.addCounter("agent_tokens_total", "Tokens of the model calls of agents, by kind.", "app", "agent", "kind")
	m.agentCalls = m.addCounter("agent_calls_total", "Calls that agents make, by kind: model or tool.", "app", "agent", "kind")
	m.retries = m.addCounter("model_retries_total", "Retries of failed model calls.", "app", "model")
	m.cost = m.addCounter("model_cost_usd_total", "Cost in US dollars of model calls with a price.", "app", "model")
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

// addCallMetrics adds a counter and a histogram for model or tool calls.
func (m *Metrics) addCallMetrics(kind, countHelp, durationHelp string) (find func(labels) callMetrics) {
	all := m.addCounter(kind+"_calls_total", countHelp, "app", kind, "code")
	took := m.addHistogram(kind+"_call_duration_seconds", durationHelp, "app", kind)
	return func(l labels) callMetrics {
		return callMetrics{all.WithLabelValues(l.app, l.name, l.code), took.WithLabelValues(l.app, l.name)}
	}
}

// Observe records a measurement.
func (m *Metrics) Observe(r runtime.Measurement) {
	took, code := r.End.Sub(r.Start).Seconds(), cmp.Or(r.Code, codeOK)
	switch r.Kind {
	case runtime.MeasuredRun:
		l := labels{app: r.App, code: code}
		if code == runtime.CodeAppNotFound {
			l.app = "" // callers could invent any number of label values
		}
		of := m.runs.get(l)
		of.observe(took)
		of.wait.Observe(r.Wait.Seconds())
	case runtime.MeasuredModel:
		m.models.get(labels{r.App, r.Name, code}).observe(took)
		if !r.FirstChunk.IsZero() {
			m.firstChunk.get(labels{app: r.App, name: r.Name}).Observe(r.FirstChunk.Sub(r.Start).Seconds())
		}
		if r.Retries > 0 {
			m.retries.WithLabelValues(r.App, r.Name).Add(float64(r.Retries))
		}
		if r.Cost > 0 {
			m.cost.WithLabelValues(r.App, r.Name).Add(r.Cost)
		}
		if r.Usage != nil {
			observeTokens(m.tokens, r.App, r.Name, r.Usage)
		}
		m.observeAgentCall(r)
	case runtime.MeasuredTool:
		m.tools.get(labels{r.App, r.Name, code}).observe(took)
		m.observeAgentCall(r)
	}
	m.mu.RLock()
	observers := m.observers
	m.mu.RUnlock()
	for _, observe := range observers {
		observe(r)
	}
}

// observeAgentCall counts a model or tool call for the agent that makes it.
func (m *Metrics) observeAgentCall(r runtime.Measurement) {
	if r.Agent == "" {
		return
	}
	m.agentCalls.WithLabelValues(r.App, r.Agent, string(r.Kind)).Inc()
	if r.Usage != nil {
		observeTokens(m.agentTokens, r.App, r.Agent, r.Usage)
	}
}

func observeTokens(tokens *prometheus.CounterVec, app, name string, u *genai.GenerateContentResponseUsageMetadata) {
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
			tokens.WithLabelValues(app, name, t.kind).Add(float64(t.n))
		}
	}
}

// trackStream counts an open stream until end is called.
func (m *Metrics) trackStream(st *Stream) (end func()) {
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

func (s *Services) handleMetrics(w http.ResponseWriter, r *http.Request) error {
	all := prometheus.Gatherers{s.opts.Metrics.registry, s.stateMetrics}
	promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: 4}).ServeHTTP(w, r)
	return nil
}

// A stateCollector collects metrics that are read on request: app reloads and store
// statistics.
type stateCollector struct {
	server *Services

	appOK, appFailed, appLoaded, appGood, appLoads *prometheus.Desc
	appUnreadable, folderUnreadable                *prometheus.Desc
	draining, running                              *prometheus.Desc
	cacheReads, cacheSessions, cacheBytes          *prometheus.Desc
	waiting, waits, waited                         *prometheus.Desc
	writes, transactions, queued                   *prometheus.Desc
}

func newStateCollector(s *Services) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("agenthost_"+name, help, labels, nil)
	}
	return &stateCollector{
		server:           s,
		appOK:            desc("app_info", "Always 1; the label is the active revision, empty if there is none.", "app", "revision"),
		appFailed:        desc("app_last_reload_failed", "Whether the last reload of the app failed: 1 or 0.", "app"),
		appLoaded:        desc("app_last_reload_timestamp_seconds", "Time of the last reload of the app.", "app"),
		appGood:          desc("app_last_good_reload_timestamp_seconds", "Time of the last successful reload of the app; 0 if there was none.", "app"),
		appLoads:         desc("app_reloads_total", "Reloads of the app by outcome: good or failed.", "app", "outcome"),
		appUnreadable:    desc("app_folder_unreadable", "Whether the folder of the app cannot be read: 1 or 0.", "app"),
		folderUnreadable: desc("folder_unreadable", "Whether a folder of apps cannot be read: 1 or 0.", "folder"),
		draining:         desc("draining", "Whether the server is shutting down: 1 or 0."),
		running:          desc("runs_running", "Turns in progress."),
		cacheReads:       desc("store_cache_reads_total", "Session reads by cache outcome: hit or miss.", "outcome"),
		cacheSessions:    desc("store_cache_sessions", "Sessions in the cache."),
		cacheBytes:       desc("store_cache_bytes", "Size of the session cache."),
		waiting:          desc("store_waiting", "Turns waiting: in the queue of a session, or for the lease of another host.", "for"),
		waits:            desc("store_waits_total", "Completed waits.", "for"),
		waited:           desc("store_wait_seconds_total", "Total duration of completed waits.", "for"),
		writes:           desc("store_writes_total", "Writes to the database."),
		transactions:     desc("store_transactions_total", "Database transactions; concurrent writes share one (group commit)."),
		queued:           desc("store_writes_queued", "Writes waiting for a transaction."),
	}
}

// Describe sends nothing, because the series depend on the apps.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the current state.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	for _, app := range c.server.host.Apps() {
		to <- constGauge(c.appOK, 1, app.Name(), app.Revision())
	}
	for _, st := range c.server.reloaderStatuses() {
		to <- constGauge(c.appFailed, boolValue(!st.OK && st.Waiting == ""), st.App)
		to <- constGauge(c.appUnreadable, boolValue(st.Unreadable != ""), st.App)
		to <- constGauge(c.appLoaded, unixSeconds(st.Loads.Last), st.App)
		to <- constGauge(c.appGood, unixSeconds(st.Loads.Good), st.App)
		to <- constCounter(c.appLoads, float64(st.Loads.All-st.Loads.Failed), st.App, "good")
		to <- constCounter(c.appLoads, float64(st.Loads.Failed), st.App, "failed")
	}
	unreadable := map[string]bool{} // folders with the same base name share a series
	for _, f := range c.server.reloaderFolders() {
		unreadable[f.Name] = unreadable[f.Name] || f.Unreadable != ""
	}
	for name, is := range unreadable {
		to <- constGauge(c.folderUnreadable, boolValue(is), name)
	}
	to <- constGauge(c.draining, boolValue(!c.server.runs.isOpen()))
	to <- constGauge(c.running, float64(c.server.runs.count()))
	c.collectStore(to, c.server.host.Store().Stats())
}

func (c *stateCollector) collectStore(to chan<- prometheus.Metric, st store.Stats) {
	to <- constCounter(c.cacheReads, float64(st.CacheHits), "hit")
	to <- constCounter(c.cacheReads, float64(st.CacheMisses), "miss")
	to <- constGauge(c.cacheSessions, float64(st.CacheSessions))
	to <- constGauge(c.cacheBytes, float64(st.CacheBytes))
	for _, w := range []struct {
		what  string
		waits store.Waits
	}{{"queue", st.Queue}, {"lease", st.Lease}} {
		to <- constGauge(c.waiting, float64(w.waits.Now), w.what)
		to <- constCounter(c.waits, float64(w.waits.Ended), w.what)
		to <- constCounter(c.waited, w.waits.Took.Seconds(), w.what)
	}
	to <- constCounter(c.writes, float64(st.Writes))
	to <- constCounter(c.transactions, float64(st.Transactions))
	to <- constGauge(c.queued, float64(st.Queued))
}

func constGauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func constCounter(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// unixSeconds returns 0 for the zero time.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// A metricCache caches the metrics by label values. A turn observes about a dozen, and
// looking one up is slower than observing it. It is safe for concurrent use.
type metricCache[L comparable, M any] struct {
	find func(L) M

	mu    sync.RWMutex
	found map[L]M
}

func (s *metricCache[L, M]) get(l L) M {
	s.mu.RLock()
	m, ok := s.found[l]
	s.mu.RUnlock()
	if ok {
		return m
	}
	m = s.find(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		s.found = map[L]M{}
	}
	s.found[l] = m
	return m
}

type (
	// labels identify runs and model and tool calls.
	labels        struct{ app, name, code string }
	requestLabels struct {
		pattern string
		status  int
	}

	// callMetrics count operations and their durations.
	callMetrics struct {
		count    prometheus.Counter
		duration prometheus.Observer
	}
	runMetrics struct {
		callMetrics
		wait prometheus.Observer
	}
)

// observe records an operation that took the given seconds.
func (t callMetrics) observe(took float64) {
	t.count.Inc()
	t.duration.Observe(took)
}

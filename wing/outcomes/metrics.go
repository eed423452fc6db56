package outcomes

import (
	"cmp"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/runtime"
)

// maxRevisionSeries is how many revisions an app has in the metrics: the ones that ran last.
const maxRevisionSeries = 4

// revisionMetrics are the metrics with a revision as label. They count what this process ran, and only
// an app's last revisions, so that a process that reloads for years has as many series as a new one.
type revisionMetrics struct {
	runs, cost, toolErrors *prometheus.CounterVec
	seconds                *prometheus.HistogramVec

	mu sync.Mutex
	// recent has each app's revisions, the one that ran last at the end.
	recent map[string][]string
}

func newRevisionMetrics() *revisionMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "agenthost", Name: name, Help: help}, append([]string{"app", "revision"}, labels...))
	}
	return &revisionMetrics{
		recent: map[string][]string{},
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "agenthost", Name: "revision_run_seconds", Help: "Duration of turns by revision.", Buckets: runBuckets(),
		}, []string{"app", "revision"}),
		runs:       counter("revision_runs_total", "Completed turns by revision and result, for an app's last 4 revisions.", "code"),
		cost:       counter("revision_cost_usd_total", "Cost in US dollars of model calls with a price, by revision."),
		toolErrors: counter("revision_tool_errors_total", "Failed tool calls by revision."),
	}
}

// runBuckets are the upper bounds in seconds. They are fewer than those of run_duration_seconds, because each
// app has them for each of its revisions.
func runBuckets() []float64 { return []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300} }

func (m *revisionMetrics) listCollectors() []prometheus.Collector {
	return []prometheus.Collector{m.runs, m.seconds, m.cost, m.toolErrors}
}

// observeRun counts a measurement that has a revision.
func (m *revisionMetrics) observeRun(r runtime.Measurement) {
	if r.Revision == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trackRevision(r.App, r.Revision)
	switch r.Kind {
	case runtime.MeasuredRun:
		m.runs.WithLabelValues(r.App, r.Revision, cmp.Or(r.Code, "OK")).Inc()
		m.seconds.WithLabelValues(r.App, r.Revision).Observe(max(0, r.End.Sub(r.Start).Seconds()))
	case runtime.MeasuredModel:
		if r.Cost > 0 {
			m.cost.WithLabelValues(r.App, r.Revision).Add(r.Cost)
		}
	case runtime.MeasuredTool:
		if r.Code != "" {
			m.toolErrors.WithLabelValues(r.App, r.Revision).Inc()
		}
	}
}

// trackRevision makes a revision the one that ran last, and deletes the series that are too many. The
// caller holds the lock.
func (m *revisionMetrics) trackRevision(app, revision string) {
	all := m.recent[app]
	if len(all) > 0 && all[len(all)-1] == revision {
		return
	}
	if at := slices.Index(all, revision); at >= 0 {
		all = slices.Delete(all, at, at+1)
	}
	all = append(all, revision)
	if len(all) > maxRevisionSeries {
		for _, c := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.runs, m.seconds, m.cost, m.toolErrors} {
			c.DeletePartialMatch(prometheus.Labels{"app": app, "revision": all[0]})
		}
		all = slices.Delete(all, 0, 1)
	}
	m.recent[app] = all
}

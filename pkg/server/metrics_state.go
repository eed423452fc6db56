package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/store"
)

// A stateCollector collects metrics that are read on request: the reloads of apps and
// the statistics of the store.
type stateCollector struct {
	server *Server

	appOK, appFailed, appLoaded, appGood, appLoads *prometheus.Desc
	draining, running                              *prometheus.Desc
	cacheReads, cacheSessions, cacheBytes          *prometheus.Desc
	waiting, waits, waited                         *prometheus.Desc
	writes, transactions, queued                   *prometheus.Desc
}

func newStateCollector(s *Server) *stateCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("agenthost_"+name, help, labels, nil)
	}
	return &stateCollector{
		server:        s,
		appOK:         desc("app_info", "Always 1; the label is the active revision, empty if there is none.", "app", "revision"),
		appFailed:     desc("app_last_reload_failed", "Whether the last reload of the app failed: 1 or 0.", "app"),
		appLoaded:     desc("app_last_reload_timestamp_seconds", "Time of the last reload of the app.", "app"),
		appGood:       desc("app_last_good_reload_timestamp_seconds", "Time of the last successful reload of the app; 0 if there was none.", "app"),
		appLoads:      desc("app_reloads_total", "Reloads of the app by outcome: good or failed.", "app", "outcome"),
		draining:      desc("draining", "Whether the server is shutting down: 1 or 0."),
		running:       desc("runs_running", "Turns in progress."),
		cacheReads:    desc("store_cache_reads_total", "Session reads by cache outcome: hit or miss.", "outcome"),
		cacheSessions: desc("store_cache_sessions", "Sessions in the cache."),
		cacheBytes:    desc("store_cache_bytes", "Size of the session cache."),
		waiting:       desc("store_waiting", "Turns waiting: in the queue of a session, or for the lease of another host.", "for"),
		waits:         desc("store_waits_total", "Completed waits.", "for"),
		waited:        desc("store_wait_seconds_total", "Total duration of completed waits.", "for"),
		writes:        desc("store_writes_total", "Writes to the database."),
		transactions:  desc("store_transactions_total", "Database transactions; concurrent writes share one (group commit)."),
		queued:        desc("store_writes_queued", "Writes waiting for a transaction."),
	}
}

// Describe sends nothing, because the series depend on the apps.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the current state.
func (c *stateCollector) Collect(to chan<- prometheus.Metric) {
	for _, app := range c.server.host.Apps() {
		to <- constGauge(c.appOK, 1, app.Name, app.Revision)
	}
	for _, st := range c.server.reloaderStatuses() {
		c.collectApp(to, &st)
	}
	to <- constGauge(c.draining, boolValue(!c.server.runs.isOpen()))
	to <- constGauge(c.running, float64(c.server.runs.count()))
	c.collectStore(to, c.server.host.Store().Stats())
}

func (c *stateCollector) collectApp(to chan<- prometheus.Metric, st *Status) {
	l := st.Loads
	to <- constGauge(c.appFailed, boolValue(!st.OK && st.Waiting == ""), st.App)
	to <- constGauge(c.appLoaded, unixSeconds(l.Last), st.App)
	to <- constGauge(c.appGood, unixSeconds(l.Good), st.App)
	to <- constCounter(c.appLoads, float64(l.All-l.Failed), st.App, "good")
	to <- constCounter(c.appLoads, float64(l.Failed), st.App, "failed")
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

package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/store"
)

// A stateCollector tells what can be looked up when somebody asks: how the
// loading of apps went, and what the store did.
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
		appOK:         desc("app_info", "Always 1; the label tells the revision that serves, empty when none does.", "app", "revision"),
		appFailed:     desc("app_last_reload_failed", "Whether the app's files had problems when they were loaded last: 1 or 0.", "app"),
		appLoaded:     desc("app_last_reload_timestamp_seconds", "When the app's files were loaded last.", "app"),
		appGood:       desc("app_last_good_reload_timestamp_seconds", "When the app's files were loaded without problems last; 0 is never.", "app"),
		appLoads:      desc("app_reloads_total", "How often the app's files were loaded, by how that ended: good or failed.", "app", "outcome"),
		draining:      desc("draining", "Whether the host is about to stop: 1 or 0."),
		running:       desc("runs_running", "Turns that are under way."),
		cacheReads:    desc("store_cache_reads_total", "Sessions that were read, by whether their history was at hand: hit or miss.", "outcome"),
		cacheSessions: desc("store_cache_sessions", "Sessions whose history is at hand."),
		cacheBytes:    desc("store_cache_bytes", "What the histories at hand take."),
		waiting:       desc("store_waiting", "Turns that wait now: in the queue of a session, or for the lease of another host.", "for"),
		waits:         desc("store_waits_total", "Waits that have ended.", "for"),
		waited:        desc("store_wait_seconds_total", "How long the waits that have ended took together.", "for"),
		writes:        desc("store_writes_total", "Writes to the database."),
		transactions:  desc("store_transactions_total", "Transactions with those writes: many share one when many come at once."),
		queued:        desc("store_writes_queued", "Writes that wait now."),
	}
}

// Describe sends nothing: the series depend on the apps that are there.
func (c *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect looks everything up.
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

// unixSeconds are those since the epoch; 0 for no time at all.
func unixSeconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

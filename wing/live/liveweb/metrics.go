package liveweb

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/runtime"
)

// liveMetrics measure a server's live conversations.
type liveMetrics struct {
	sockets                prometheus.Gauge
	frames, bytes, dropped *prometheus.CounterVec
	// received and sent return one direction's metrics, which exist from its first frame on.
	received, sent func() frameMetrics
}

func newLiveMetrics() *liveMetrics {
	addCounter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "agenthost", Name: name, Help: help}, []string{label})
	}
	m := &liveMetrics{
		sockets: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "agenthost", Name: "live_sockets_open", Help: "Open live conversations."}),
		frames:  addCounter("live_frames_total", "Live conversation frames by direction: in (from clients) or out.", "direction"),
		bytes:   addCounter("live_bytes_total", "Bytes of these frames.", "direction"),
		dropped: addCounter("live_dropped_total", "Audio and image chunks that were dropped because a client sent more than the model takes.", "app"),
	}
	m.received = sync.OnceValue(func() frameMetrics { return m.findFrames("in") })
	m.sent = sync.OnceValue(func() frameMetrics { return m.findFrames("out") })
	return m
}

func (m *liveMetrics) findFrames(direction string) frameMetrics {
	return frameMetrics{m.frames.WithLabelValues(direction), m.bytes.WithLabelValues(direction)}
}

// listCollectors returns the metrics for the server to register.
func (m *liveMetrics) listCollectors() []prometheus.Collector {
	return []prometheus.Collector{m.sockets, m.frames, m.bytes, m.dropped}
}

// countDropped counts the media that a live run has dropped.
func (m *liveMetrics) countDropped(r runtime.Measurement) {
	if r.Kind == runtime.MeasuredLive && r.Dropped > 0 {
		m.dropped.WithLabelValues(r.App).Add(float64(r.Dropped))
	}
}

// frameMetrics count the frames in one direction.
type frameMetrics struct{ frames, bytes prometheus.Counter }

func (m frameMetrics) countFrame(size int) {
	m.frames.Inc()
	m.bytes.Add(float64(size))
}

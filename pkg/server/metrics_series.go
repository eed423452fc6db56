package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A metricCache caches the metrics of label values. A turn observes about a dozen, and
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
	// labels identify runs and calls of models and tools.
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

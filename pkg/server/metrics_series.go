package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metricCache are the metrics of labels, found once: each turn observes a dozen, and to
// find one costs more than to observe it. Many goroutines may use them.
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
	// labels are those of runs and of what agents call, by name.
	labels        struct{ app, name, code string }
	requestLabels struct {
		route  string
		status int
	}

	// callMetrics are things that are counted and take their time.
	callMetrics struct {
		count    prometheus.Counter
		duration prometheus.Observer
	}
	runMetrics struct {
		callMetrics
		wait prometheus.Observer
	}
)

// observe counts one that took so many seconds.
func (t callMetrics) observe(took float64) {
	t.count.Inc()
	t.duration.Observe(took)
}

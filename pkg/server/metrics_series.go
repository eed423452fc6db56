package server

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// series are the metrics of labels, found once: each turn observes a dozen, and to
// find one costs more than to observe it. Many goroutines may use them.
type series[L comparable, M any] struct {
	find func(L) M

	mu    sync.RWMutex
	found map[L]M
}

func (s *series[L, M]) of(l L) M {
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
	labels       struct{ app, name, code string }
	answerLabels struct {
		route  string
		status int
	}

	// timed are things that are counted and take their time.
	timed struct {
		all  prometheus.Counter
		took prometheus.Observer
	}
	timedRuns struct {
		timed
		waited prometheus.Observer
	}
)

// observe counts one that took so many seconds.
func (t timed) observe(took float64) {
	t.all.Inc()
	t.took.Observe(took)
}

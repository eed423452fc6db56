package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"agenthost/internal/safe"
)

var errStoreTimeout = errors.New("session store did not respond in time")

// Timing of store probes: how long a result is cached, how long a request waits for it,
// and the timeout of a probe.
const (
	probeTTL     = time.Second
	probeWait    = 3 * time.Second
	probeTimeout = 30 * time.Second
)

// A readiness checks whether the store is writable. It writes at most once a second,
// one write at a time, however many requests wait.
type readiness struct {
	ping  func(context.Context) error
	clock func() time.Time

	mu   sync.Mutex
	last *probe // nil before the first probe
}

// A probe is one test write. Its result is available once done is closed.
type probe struct {
	done chan struct{}
	at   time.Time
	err  error
}

// checkStore returns nil if the store is writable.
func (r *readiness) checkStore(ctx context.Context) error {
	p := r.currentProbe()
	timeout := time.NewTimer(probeWait)
	defer timeout.Stop()
	select {
	case <-p.done:
		return p.err
	case <-timeout.C:
		return errStoreTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
}

// currentProbe returns the running probe, a recent one, or starts a new one.
func (r *readiness) currentProbe() *probe {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && !r.last.isExpired(r.clock()) {
		return r.last
	}
	p := &probe{done: make(chan struct{})}
	r.last = p
	go func() {
		defer safe.Recover(func(panicErr *safe.Panic) { r.finishProbe(p, panicErr) })
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		r.finishProbe(p, r.ping(ctx))
	}()
	return p
}

// isExpired reports whether the probe has completed and its result is too old.
func (p *probe) isExpired(now time.Time) bool {
	select {
	case <-p.done:
		age := now.Sub(p.at)
		return age < 0 || age >= probeTTL
	default:
		return false
	}
}

func (r *readiness) finishProbe(p *probe, err error) {
	p.at, p.err = r.clock(), err
	close(p.done)
}

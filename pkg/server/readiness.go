package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"agenthost/internal/safe"
)

var errStoreTimeout = errors.New("the store did not respond in time")

// Store probe timing: how long a result is cached, how long a request waits for it, and a
// probe's timeout.
const (
	probeTTL     = time.Second
	probeWait    = 3 * time.Second
	probeTimeout = 30 * time.Second
)

// A readiness checks whether a store works. It probes at most once a second, one probe at a
// time, however many requests wait.
type readiness struct {
	ping  func(context.Context) error
	clock func() time.Time

	mu   sync.Mutex
	last *probe // nil before the first probe
}

// A probe tests a store once. Its result is available once done is closed.
type probe struct {
	done chan struct{}
	at   time.Time
	err  error
}

// checkStore returns nil if the store works. Requests share the running probe and a recent result.
func (r *readiness) checkStore(ctx context.Context) error {
	r.mu.Lock()
	p := r.last
	if p == nil || p.isExpired(r.clock()) {
		p = &probe{done: make(chan struct{})}
		r.last = p
		// It tests the store whether or not a request still waits.
		go func() {
			defer safe.Recover(func(panicErr *safe.Panic) { r.finishProbe(p, panicErr) })
			ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
			defer cancel()
			r.finishProbe(p, r.ping(ctx))
		}()
	}
	r.mu.Unlock()
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

package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"agenthost/internal/safe"
)

// errStoreTimeout is the answer when the store did not say in time whether it can write.
var errStoreTimeout = errors.New("the session store does not answer")

// The bounds of a probe of the store: how long its outcome counts, how long a
// request waits for it, and how long it may take itself.
const (
	probeTTL     = time.Second
	probeWait    = 3 * time.Second
	probeTimeout = 30 * time.Second
)

// A readiness knows whether the store can write. However many ask, it writes once
// a second at most, and one write at a time.
type readiness struct {
	ping  func(context.Context) error
	clock func() time.Time

	mu   sync.Mutex
	last *probe // nil before the first one
}

// A probe is one write. Its outcome is there when done is closed.
type probe struct {
	done chan struct{}
	at   time.Time
	err  error
}

// checkStore returns why the store cannot write, or nil.
func (r *readiness) checkStore(ctx context.Context) error {
	p := r.currentProbe()
	patience := time.NewTimer(probeWait)
	defer patience.Stop()
	select {
	case <-p.done:
		return p.err
	case <-patience.C:
		return errStoreTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
}

// currentProbe is the probe under way, or the last one when it is recent, or a new one.
func (r *readiness) currentProbe() *probe {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && !r.last.isExpired(r.clock()) {
		return r.last
	}
	p := &probe{done: make(chan struct{})}
	r.last = p
	go func() {
		defer safe.Recover(func(why *safe.Panic) { r.finishProbe(p, why) })
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		r.finishProbe(p, r.ping(ctx))
	}()
	return p
}

// isExpired says that the probe has ended, and too long ago to count.
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

package server

import (
	"context"
	"errors"
	"sync"
	"time"

	"agenthost/internal/safe"
)

// errSlowStore is the answer when the store did not say in time whether it can write.
var errSlowStore = errors.New("the session store does not answer")

// The bounds of a probe of the store: how long its outcome counts, how long a
// request waits for it, and how long it may take itself.
const (
	probeAge      = time.Second
	probePatience = 3 * time.Second
	probeTimeout  = 30 * time.Second
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

// check returns why the store cannot write, or nil.
func (r *readiness) check(ctx context.Context) error {
	p := r.current()
	patience := time.NewTimer(probePatience)
	defer patience.Stop()
	select {
	case <-p.done:
		return p.err
	case <-patience.C:
		return errSlowStore
	case <-ctx.Done():
		return ctx.Err()
	}
}

// current is the probe under way, or the last one when it is recent, or a new one.
func (r *readiness) current() *probe {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && !r.last.expired(r.clock()) {
		return r.last
	}
	p := &probe{done: make(chan struct{})}
	r.last = p
	go func() {
		defer safe.Recover(func(why *safe.Panic) { r.end(p, why) })
		ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
		defer cancel()
		r.end(p, r.ping(ctx))
	}()
	return p
}

// expired says that the probe has ended, and too long ago to count.
func (p *probe) expired(now time.Time) bool {
	select {
	case <-p.done:
		age := now.Sub(p.at)
		return age < 0 || age >= probeAge
	default:
		return false
	}
}

func (r *readiness) end(p *probe, err error) {
	p.at, p.err = r.clock(), err
	close(p.done)
}

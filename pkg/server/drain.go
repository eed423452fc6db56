package server

import (
	"context"
	"sync"
)

// Drain starts a graceful shutdown: running invocations finish, new ones get 503, and
// change streams end. Other requests are served as before. It cannot be undone.
func (s *Server) Drain() {
	s.runs.close()
	s.stop()
}

// Wait blocks until no run is in progress or ctx ends. Without [Server.Drain] new runs
// may start at any time.
func (s *Server) Wait(ctx context.Context) error { return s.runs.wait(ctx) }

// A runGate counts runs in progress and rejects new ones once closed. The zero value is
// open.
type runGate struct {
	mu      sync.Mutex
	closed  bool
	running int
	idle    chan struct{} // closed after the last run; nil if no one waits
}

func (g *runGate) acquire() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.running++
	return true
}

func (g *runGate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running--; g.running == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

func (g *runGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *runGate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed
}

func (g *runGate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running
}

func (g *runGate) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.running == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	empty := g.idle
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

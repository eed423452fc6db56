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

// Abort cancels detached runs when a shutdown's grace period is over. Other runs end with
// their connections.
func (s *Server) Abort() { s.detachedRuns.cancelAll() }

// A cancelGroup cancels contexts together. The zero value is empty.
type cancelGroup struct {
	mu      sync.Mutex
	next    int
	cancels map[int]context.CancelFunc
}

// withCancel returns a context that cancelAll cancels. The caller must call end to
// remove it from the group.
func (g *cancelGroup) withCancel(ctx context.Context) (inner context.Context, end func()) {
	inner, cancel := context.WithCancel(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cancels == nil {
		g.cancels = map[int]context.CancelFunc{}
	}
	g.next++
	id := g.next
	g.cancels[id] = cancel
	return inner, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.cancels, id)
		cancel()
	}
}

func (g *cancelGroup) cancelAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, end := range g.cancels {
		end()
	}
}

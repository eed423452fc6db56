package server

import (
	"context"
	"sync"
)

// Drain lets the runs that are under way finish and makes new ones answer 503.
// Streams of changes end, as they would never; everything else answers as
// before. There is no way back.
func (s *Server) Drain() {
	s.runs.close()
	s.stop()
}

// Wait returns when no run is under way, or with ctx's error when that takes
// too long. Without [Server.Drain] new runs may come at any time.
func (s *Server) Wait(ctx context.Context) error { return s.runs.wait(ctx) }

// A gate counts who is inside, and can be shut for those who come. The zero
// value is open.
type runGate struct {
	mu      sync.Mutex
	closed  bool
	running int
	idle    chan struct{} // closed when the last one leaves; nil where nobody waits for it
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

// count is how many are inside.
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

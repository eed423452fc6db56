package server

import (
	"context"
	"sync"
)

// Drain lets the runs that are under way finish and makes new ones answer 503.
// Streams of changes end, as they would never; everything else answers as
// before. There is no way back.
func (s *Server) Drain() {
	s.runs.shut()
	s.stop()
}

// Wait returns when no run is under way, or with ctx's error when that takes
// too long. Without [Server.Drain] new runs may come at any time.
func (s *Server) Wait(ctx context.Context) error { return s.runs.wait(ctx) }

// A gate counts who is inside, and can be shut for those who come. The zero
// value is open.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside int
	empty  chan struct{} // closed when the last one leaves; nil where nobody waits for it
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside--; g.inside == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.closed
}

// count is how many are inside.
func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.inside
}

func (g *gate) wait(ctx context.Context) error {
	g.mu.Lock()
	if g.inside == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.empty == nil {
		g.empty = make(chan struct{})
	}
	empty := g.empty
	g.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

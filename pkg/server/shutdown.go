package server

import (
	"context"
	"sync"
	"sync/atomic"

	"agenthost/pkg/session"
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
	// followUps counts the running ones that follow a run.
	followUps int
	idle      chan struct{} // closed after the last run; nil if no one waits
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

// acquireFollowUp counts work until releaseFollowUp, also in a closed gate while another run is in
// progress. It returns false if the gate is closed, and idle.
func (g *runGate) acquireFollowUp() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed && g.running == 0 {
		return false
	}
	g.running++
	g.followUps++
	return true
}

func (g *runGate) releaseFollowUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.followUps--
	g.removeOne()
}

func (g *runGate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removeOne()
}

// removeOne ends a run or what follows it; g.mu is held.
func (g *runGate) removeOne() {
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
	return g.running - g.followUps
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

// A runGroup holds the detached runs of this process, which no client holds. The zero value is empty.
type runGroup struct {
	mu   sync.Mutex
	runs map[*detachedRun]bool
}

// A detachedRun ends with its run, when its client stops it, or when the server aborts it.
type detachedRun struct {
	key     session.Key
	cancel  context.CancelFunc
	stopped atomic.Bool // by a client
}

// addRun adds a run of a session. The caller must call end to remove it from the group.
func (g *runGroup) addRun(ctx context.Context, key session.Key) (inner context.Context, run *detachedRun, end func()) {
	inner, cancel := context.WithCancel(ctx)
	run = &detachedRun{key: key, cancel: cancel}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.runs == nil {
		g.runs = map[*detachedRun]bool{}
	}
	g.runs[run] = true
	return inner, run, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.runs, run)
		cancel()
	}
}

// stopSession cancels a session's runs, as if their client had left, and reports whether it had one.
func (g *runGroup) stopSession(key session.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	found := false
	for run := range g.runs {
		if run.key == key {
			found = true
			run.stopped.Store(true)
			run.cancel()
		}
	}
	return found
}

func (g *runGroup) cancelAll() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for run := range g.runs {
		run.cancel()
	}
}

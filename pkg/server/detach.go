package server

import (
	"context"
	"net/http"
	"sync"

	"agenthost/pkg/session"
)

// newRunContext returns the context of a run. It ends with the request or after
// Options.MaxRunTime. With ?detach=true it outlives the request and ends on
// [Server.Abort]: a client that disconnects does not stop the run.
func (s *Server) newRunContext(r *http.Request) (ctx context.Context, detached bool, end func(), err error) {
	if detached, err = readQueryFlag(r, "detach"); err != nil {
		return nil, false, nil, err
	}
	ctx, end = r.Context(), func() {}
	if detached {
		ctx, end = s.detachedRuns.withCancel(context.WithoutCancel(ctx))
	}
	if s.opts.MaxRunTime > 0 {
		limited, stop := context.WithTimeout(ctx, s.opts.MaxRunTime)
		outer := end
		return limited, detached, func() { stop(); outer() }, nil
	}
	return ctx, detached, end, nil
}

// Abort cancels detached runs when the grace period of a shutdown is over. Other runs
// end with their connections.
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

// trackStream counts an open stream. When it ends early, end logs the reason, which the
// client can no longer receive.
func (s *Server) trackStream(r *http.Request, st *stream, key session.Key) (end func()) {
	counted := s.opts.Metrics.trackStream(st)
	return func() {
		counted()
		if st.writeErr != nil {
			s.opts.Logger.InfoContext(r.Context(), "stream client dropped", "app", key.App, "session", key.ID, "reason", st.dropReason())
		}
	}
}

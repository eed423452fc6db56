package server

import (
	"context"
	"net/http"
	"sync"

	"agenthost/pkg/session"
)

// newRunContext is that of a run. It ends with the request, or where that has
// detach=true only when the run's time is over, or when the host gives up waiting
// for it: then a client that leaves does not end the run.
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

// Abort ends the runs whose clients may leave. It is for when there is no more time
// to wait for them; all others end with their connections.
func (s *Server) Abort() { s.detachedRuns.cancelAll() }

// An aborting ends contexts. The zero value has none.
type cancelGroup struct {
	mu      sync.Mutex
	next    int
	cancels map[int]context.CancelFunc
}

// withCancel is a context that ends with the others, until end is called.
func (a *cancelGroup) withCancel(ctx context.Context) (inner context.Context, end func()) {
	inner, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancels == nil {
		a.cancels = map[int]context.CancelFunc{}
	}
	a.next++
	id := a.next
	a.cancels[id] = cancel
	return inner, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.cancels, id)
		cancel()
	}
}

func (a *cancelGroup) cancelAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, end := range a.cancels {
		end()
	}
}

// trackStream counts a stream, and tells the log when it ends why its client got no
// more of it. The client itself cannot be told.
func (s *Server) trackStream(r *http.Request, st *stream, key session.Key) (end func()) {
	counted := s.opts.Metrics.trackStream(st)
	return func() {
		counted()
		if st.writeErr != nil {
			s.opts.Logger.InfoContext(r.Context(), "a client was dropped from its stream", "app", key.App, "session", key.ID, "reason", st.dropReason())
		}
	}
}

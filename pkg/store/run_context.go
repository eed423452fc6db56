package store

import (
	"context"
	"sync"
	"time"

	"agenthost/pkg/session"
)

// A sessionRun is the run that has a session. It is one allocation with its context.
type sessionRun struct {
	runContext
	sessions *Sessions
	key      session.Key
	once     sync.Once
}

// releaseOnce ends the run's context and passes the session to the next run, which finds the
// lease idle. Further calls do nothing.
func (r *sessionRun) releaseOnce() {
	r.once.Do(func() {
		r.sessions.leases.markIdle(r.key)
		r.cancel(nil)
		r.sessions.runs.releaseSession(r.key)
	})
}

// A runContext is the context of a run: it ends with its parent, when the store has lost
// the session, and with the run.
//
// It derives a cancelable context from its parent only when it is waited for or
// canceled. To register with a parent costs five allocations, and a turn whose model and
// tools wait for nothing needs none of them. Once derived is set, every method answers
// from it, also Value: package context finds the parent of further contexts by it.
type runContext struct {
	parent context.Context

	mu      sync.Mutex
	derived context.Context // nil until it is needed
	end     context.CancelCauseFunc
	over    bool
}

// Deadline is a method of [context.Context].
func (c *runContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done is a method of [context.Context].
func (c *runContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.derive()
	return c.derived.Done()
}

// derive sets the derived context. The caller holds the lock.
func (c *runContext) derive() {
	if c.derived != nil {
		return
	}
	c.derived, c.end = context.WithCancelCause(c.parent)
	if c.over {
		c.end(nil)
	}
}

// Err is a method of [context.Context].
func (c *runContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.derived != nil:
		return c.derived.Err()
	case c.parent.Err() != nil:
		return c.parent.Err()
	case c.over:
		return context.Canceled
	}
	return nil
}

// Value is a method of [context.Context]. A run has no shared timeout, because it may be
// long.
func (c *runContext) Value(key any) any {
	if key == (sharedTimeoutKey{}) {
		return nil
	}
	c.mu.Lock()
	from := c.parent
	if c.derived != nil {
		from = c.derived
	}
	c.mu.Unlock()
	return from.Value(key)
}

// cancel ends the context with a cause, which is nil at the end of the run.
func (c *runContext) cancel(cause error) {
	c.mu.Lock()
	c.over = true
	if cause != nil {
		c.derive()
	}
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end(cause)
	}
}

package limit

import (
	"context"
	"sync"
	"time"
)

// A LazyContext ends with its parent, at a deadline, or with [LazyContext.Cancel]. It costs
// nothing until something waits for it.
//
// Package context registers each cancelable context with its parent and starts a timer for
// each deadline: five to ten allocations. Most statements and turns in memory wait for
// nothing and only ask whether they have ended. So a LazyContext derives such a context from
// its parent when Done is called first, or when it is canceled with a cause.
//
// Once derived is set, every method answers from it, also Value, by which
// package context finds the parent of further contexts.
type LazyContext struct {
	parent   context.Context
	deadline time.Time // zero: that of the parent

	mu      sync.Mutex
	derived context.Context // nil until it is needed
	end     func(cause error)
	over    bool // canceled without a cause before it was derived
}

// Init sets the parent and the deadline, which may be zero, of a new context.
func (c *LazyContext) Init(parent context.Context, deadline time.Time) {
	c.parent, c.deadline = parent, deadline
}

// Deadline is a method of [context.Context].
func (c *LazyContext) Deadline() (time.Time, bool) {
	end, ok := c.parent.Deadline()
	if !c.deadline.IsZero() && (!ok || c.deadline.Before(end)) {
		return c.deadline, true
	}
	return end, ok
}

// Done is a method of [context.Context].
func (c *LazyContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deriveContext()
	return c.derived.Done()
}

// deriveContext sets the derived context. The caller holds the lock.
func (c *LazyContext) deriveContext() {
	if c.derived != nil {
		return
	}
	ctx, cancel := context.WithCancelCause(c.parent)
	c.derived, c.end = ctx, cancel
	if !c.deadline.IsZero() {
		limited, stop := context.WithDeadline(ctx, c.deadline)
		c.derived, c.end = limited, func(cause error) {
			cancel(cause)
			stop()
		}
	}
	if c.over {
		c.end(nil)
	}
}

// Err is a method of [context.Context].
func (c *LazyContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.derived != nil:
		return c.derived.Err()
	case c.parent.Err() != nil:
		return c.parent.Err()
	case c.over:
		return context.Canceled
	case !c.deadline.IsZero() && !time.Now().Before(c.deadline):
		return context.DeadlineExceeded
	}
	return nil
}

// Value is a method of [context.Context].
func (c *LazyContext) Value(key any) any {
	c.mu.Lock()
	from := c.parent
	if c.derived != nil {
		from = c.derived
	}
	c.mu.Unlock()
	return from.Value(key)
}

// Cancel ends the context with a cause, or with nil as [context.CancelFunc] does.
func (c *LazyContext) Cancel(cause error) {
	c.mu.Lock()
	if cause != nil && !c.over {
		c.deriveContext() // it keeps the cause
	}
	c.over = true
	end := c.end
	c.mu.Unlock()
	if end != nil {
		end(cause)
	}
}

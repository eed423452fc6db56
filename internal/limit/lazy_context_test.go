package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/internal/limit"
)

// TestLazyContext: a context ends with its parent, at its deadline and when it is canceled,
// whether or not something waits for it before, and so do the contexts that derive from it.
func TestLazyContext(t *testing.T) {
	boom := errors.New("boom")
	for _, tt := range []struct {
		name       string
		end        func(c *limit.LazyContext, cancelParent context.CancelCauseFunc)
		err, cause error
	}{
		{"canceled", func(c *limit.LazyContext, _ context.CancelCauseFunc) { c.Cancel(nil); c.Cancel(boom) }, context.Canceled, context.Canceled},
		{"canceled with a cause", func(c *limit.LazyContext, _ context.CancelCauseFunc) { c.Cancel(boom); c.Cancel(nil) }, context.Canceled, boom},
		{"parent canceled", func(_ *limit.LazyContext, cancel context.CancelCauseFunc) { cancel(boom) }, context.Canceled, boom},
		{"at the deadline", func(*limit.LazyContext, context.CancelCauseFunc) { time.Sleep(time.Minute) }, context.DeadlineExceeded, context.DeadlineExceeded},
	} {
		for _, early := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				var c limit.LazyContext
				c.Init(parent, time.Now().Add(time.Minute))
				defer c.Cancel(nil)
				all := []context.Context{&c}
				if early { // something waits before the end
					below, cancelBelow := context.WithCancel(&c)
					defer cancelBelow()
					all = append(all, below)
				}
				for _, ctx := range all {
					if end, ok := ctx.Deadline(); ctx.Err() != nil || !ok || !end.Equal(time.Now().Add(time.Minute)) {
						t.Fatalf("%s: before the end: %v, deadline %v %v", tt.name, ctx.Err(), end, ok)
					}
				}
				tt.end(&c, cancel)
				for _, ctx := range all {
					synctest.Wait()
					if err, cause := ctx.Err(), context.Cause(ctx); !errors.Is(err, tt.err) || !errors.Is(cause, tt.cause) {
						t.Errorf("%s, waiting %v: the context ended with %v, cause %v, want %v, %v", tt.name, early, err, cause, tt.err, tt.cause)
					}
					<-ctx.Done()
				}
			})
		}
	}
}

// TestLazyContextUnused: a context that nothing waits for is one allocation.
func TestLazyContextUnused(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := testing.AllocsPerRun(100, func() {
		var c limit.LazyContext
		c.Init(parent, time.Now().Add(time.Minute))
		if c.Err() != nil {
			t.Error("the context has ended")
		}
		c.Cancel(nil)
	})
	if n > 1 {
		t.Errorf("a context that is not used allocates %.0f times, want 1", n)
	}
}

package store

import (
	"context"
	"sync"
	"time"
)

// A client's request makes several store calls, and each could take almost as long as the database
// timeout. A [ShareTimeout] context gives them one timeout together. Only time within calls counts,
// so that a request may wait longer for another run in its session. A run has no shared timeout,
// because it may be long ([sessionRun]).

type sharedTimeoutKey struct{}

// A sharedTimeout measures the time that is spent in calls.
type sharedTimeout struct {
	mu    sync.Mutex
	calls int       // in progress; calls may contain others
	began time.Time // the first call
	spent time.Duration
}

// ShareTimeout returns a context whose store calls have one timeout together, not one each.
func ShareTimeout(ctx context.Context) context.Context {
	if findSharedTimeout(ctx) != nil {
		return ctx
	}
	return &sharedContext{Context: ctx}
}

// A sharedContext is ctx with a shared timeout as its value. It is one allocation;
// context.WithValue needs two.
type sharedContext struct {
	context.Context
	timeout sharedTimeout
}

// Value returns the shared timeout, or one of the context's values.
func (c *sharedContext) Value(key any) any {
	if key == (sharedTimeoutKey{}) {
		return &c.timeout
	}
	return c.Context.Value(key)
}

func findSharedTimeout(ctx context.Context) *sharedTimeout {
	t, _ := ctx.Value(sharedTimeoutKey{}).(*sharedTimeout)
	return t
}

// BeginCall is for backends that have a timeout. It counts the time until end is called.
func BeginCall(ctx context.Context) (end func()) {
	t := findSharedTimeout(ctx)
	if t == nil {
		return func() {}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.calls++; t.calls == 1 {
		t.began = time.Now()
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.calls--; t.calls == 0 {
			t.spent += time.Since(t.began)
		}
	}
}

// RemainingTimeout returns how much timeout a request's earlier calls have left.
func RemainingTimeout(ctx context.Context, timeout time.Duration) time.Duration {
	t := findSharedTimeout(ctx)
	if t == nil {
		return timeout
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	timeout -= t.spent
	if t.calls > 0 {
		timeout -= time.Since(t.began)
	}
	return timeout
}

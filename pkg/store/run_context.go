package store

import (
	"sync"

	"agenthost/internal/limit"
	"agenthost/pkg/session"
)

// A sessionRun is the run that has a session, and its context, which ends with the run or when
// the store has lost the session. Both are one allocation.
type sessionRun struct {
	limit.LazyContext
	sessions *Sessions
	key      session.Key
	once     sync.Once
}

// Value is a method of [context.Context]. A run has no shared timeout, because it may be
// long.
func (r *sessionRun) Value(key any) any {
	if key == (sharedTimeoutKey{}) {
		return nil
	}
	return r.LazyContext.Value(key)
}

// releaseOnce ends the run's context and passes the session to the next run, which finds the
// lease idle. Further calls do nothing.
func (r *sessionRun) releaseOnce() {
	r.once.Do(func() {
		r.sessions.leases.markIdle(r.key)
		r.Cancel(nil)
		r.sessions.runs.releaseSession(r.key)
	})
}

package live

import (
	"context"
	"errors"
	"net/http"
	"time"

	"agenthost/pkg/model"
)

// Reconnect bounds.
const (
	// MaxFailedConnects is how many consecutive connections may fail, or end within
	// [StableConnection] without a complete turn, before the run ends.
	MaxFailedConnects = 5
	// MaxConnectsPerMinute limits a run's connections, however they end.
	MaxConnectsPerMinute = 12
	// StableConnection is the age at which a connection counts as successful. A service
	// that accepts connections and drops them at once is thus not retried without end.
	StableConnection = 5 * time.Second

	minReconnectDelay = 100 * time.Millisecond
	maxReconnectDelay = 5 * time.Second
)

// Close codes from RFC 6455, section 7.4, and the IANA registry.
const (
	CloseNormal         = 1000
	CloseGoingAway      = 1001
	CloseAbnormal       = 1006
	CloseInvalid        = 1007
	ClosePolicy         = 1008
	CloseInternal       = 1011
	CloseServiceRestart = 1012
	CloseTryAgainLater  = 1013
)

// IsRecoverable reports whether the conversation can continue on another connection after one ended
// with err. adk-python recovers the codes 1000, 1006 and 1011; 1001, 1012 and 1013 also mean that
// nothing is wrong with what was sent. Network errors are recoverable, refusals by the service are
// not.
func IsRecoverable(err error) bool {
	var closed *model.LiveCloseError
	var refused *model.Error
	switch {
	case err == nil || errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &closed):
		switch closed.Code {
		case CloseNormal, CloseGoingAway, CloseAbnormal, CloseInternal, CloseServiceRestart, CloseTryAgainLater:
			return true
		}
		return false
	case errors.As(err, &refused):
		return refused.Code == 0 || refused.Code == http.StatusTooManyRequests || refused.Code >= http.StatusInternalServerError
	}
	return true
}

// RefusesHandle reports whether a connect with a resumption handle failed in a way that a
// connect without one may not: the service does not know the handle, or not any more.
func RefusesHandle(err error) bool {
	var closed *model.LiveCloseError
	var refused *model.Error
	switch {
	case errors.As(err, &closed):
		return closed.Code == ClosePolicy || closed.Code == CloseInvalid
	case errors.As(err, &refused):
		return refused.Code == http.StatusBadRequest || refused.Code == http.StatusNotFound
	}
	return false
}

// Reconnects decides whether and when a live run connects again. The zero value is for a run
// without connections.
type Reconnects struct {
	// Random returns a number in [0, 1) for the jitter; nil means 0.5.
	Random func() float64

	failed   int
	connects []time.Time // in the last minute, oldest first
}

// Opened records when an attempt to connect starts.
func (r *Reconnects) Opened(now time.Time) {
	for len(r.connects) > 0 && now.Sub(r.connects[0]) >= time.Minute {
		r.connects = r.connects[1:]
	}
	r.connects = append(r.connects, now)
}

// HasBudget reports whether [MaxConnectsPerMinute] allows another connection.
func (r *Reconnects) HasBudget(now time.Time) bool {
	full := len(r.connects) >= MaxConnectsPerMinute
	return !full || now.Sub(r.connects[len(r.connects)-MaxConnectsPerMinute]) >= time.Minute
}

// Ended records that a connection ended after the given time, 0 for a failed attempt. Useful
// reports that a turn was completed on it.
func (r *Reconnects) Ended(lived time.Duration, useful bool) {
	if useful || lived >= StableConnection {
		r.failed = 0
		return
	}
	r.failed++
}

// Next returns how long to wait before the next attempt; false when the run must end.
func (r *Reconnects) Next(now time.Time) (delay time.Duration, ok bool) {
	if r.failed >= MaxFailedConnects {
		return 0, false
	}
	delay = minReconnectDelay
	for range r.failed - 1 {
		delay = min(2*delay, maxReconnectDelay)
	}
	random := 0.5
	if r.Random != nil {
		random = r.Random()
	}
	delay = delay/2 + time.Duration(random*float64(delay)/2)
	if full := len(r.connects) >= MaxConnectsPerMinute; full {
		oldest := r.connects[len(r.connects)-MaxConnectsPerMinute]
		if wait := time.Minute - now.Sub(oldest); wait > delay {
			return 0, false
		}
	}
	return delay, true
}

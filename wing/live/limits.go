package live

import (
	"cmp"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// liveLimiter enforces a live run's limits, for its loop.
type liveLimiter struct {
	limits runtime.LiveLimits
	start  time.Time
	// active is when something arrived last.
	active time.Time
	timer  *time.Timer
	tokens int
}

func newLiveLimiter(limits runtime.LiveLimits) *liveLimiter {
	now := time.Now()
	l := &liveLimiter{limits: limits, start: now, active: now}
	l.timer = time.NewTimer(l.remainingTime(now))
	return l
}

func (l *liveLimiter) idleTimeout() time.Duration {
	return cmp.Or(l.limits.IdleTimeout, runtime.DefaultIdleTimeout)
}

// recordActivity restarts the idle timeout.
func (l *liveLimiter) recordActivity() { l.active = time.Now() }

func (l *liveLimiter) remainingTime(now time.Time) time.Duration {
	left := l.idleTimeout() - now.Sub(l.active)
	if most := l.limits.MaxDuration; most > 0 {
		left = min(left, most-now.Sub(l.start))
	}
	return left
}

// checkTime returns an error if a time limit is reached, and restarts the timer otherwise.
func (l *liveLimiter) checkTime() error {
	now := time.Now()
	if most := l.limits.MaxDuration; most > 0 && now.Sub(l.start) >= most {
		return newRunError(runtime.CodeLiveLimit, nil, "the live conversation has reached its maximum duration of %s (run_config: live.max_duration)", most)
	}
	if idle := l.idleTimeout(); now.Sub(l.active) >= idle {
		return newRunError(runtime.CodeLiveLimit, nil, "the live conversation was idle for %s (run_config: live.idle_timeout)", idle)
	}
	l.timer.Reset(l.remainingTime(now))
	return nil
}

// addTokens counts a response's tokens, and fails when the limit is reached.
func (l *liveLimiter) addTokens(response *model.Response) error {
	l.tokens += int(response.UsageMetadata.TotalTokenCount)
	if most := l.limits.MaxTokens; most > 0 && l.tokens >= most {
		return newRunError(runtime.CodeLiveLimit, nil, "the live conversation has used %d tokens of at most %d (run_config: live.max_tokens)", l.tokens, most)
	}
	return nil
}

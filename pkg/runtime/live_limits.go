package runtime

import (
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// DefaultIdleTimeout is the default of [LiveLimits].IdleTimeout.
const DefaultIdleTimeout = 15 * time.Minute

// LiveLimits limit one live conversation: live in run_config. Requests cannot change them.
type LiveLimits struct {
	MaxDuration spec.Duration `yaml:"max_duration" doc:"Maximum duration of a live conversation, such as 30m. Default: no limit."`
	IdleTimeout spec.Duration `yaml:"idle_timeout" default:"15m" doc:"Ends a live conversation in which nothing arrives from the client or from the model for this time."`
	MaxTokens   int           `yaml:"max_tokens" doc:"Maximum number of tokens that the models of a live conversation report. Default: no limit."`
}

// checkLimits rejects limits below zero.
func (l *LiveLimits) checkLimits(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, one := range []struct {
		key   string
		value int64
	}{{"max_duration", int64(l.MaxDuration)}, {"idle_timeout", int64(l.IdleTimeout)}, {"max_tokens", int64(l.MaxTokens)}} {
		if at := n.Get(one.key); !at.IsNull() && one.value <= 0 {
			ds = append(ds, at.Errorf("run-config", "%s must be above 0", one.key))
		}
	}
	return ds
}

func (l *LiveLimits) idleTimeout() time.Duration {
	if l.IdleTimeout == 0 {
		return DefaultIdleTimeout
	}
	return time.Duration(l.IdleTimeout)
}

// liveLimiter enforces the limits of a live run, for its loop.
type liveLimiter struct {
	limits LiveLimits
	start  time.Time
	// active is when something arrived last.
	active time.Time
	timer  *time.Timer
	tokens int
}

func newLiveLimiter(limits LiveLimits) *liveLimiter {
	now := time.Now()
	l := &liveLimiter{limits: limits, start: now, active: now}
	l.timer = time.NewTimer(l.remainingTime(now))
	return l
}

func (l *liveLimiter) stopTimer() { l.timer.Stop() }

// recordActivity restarts the idle timeout.
func (l *liveLimiter) recordActivity() { l.active = time.Now() }

func (l *liveLimiter) remainingTime(now time.Time) time.Duration {
	left := l.limits.idleTimeout() - now.Sub(l.active)
	if most := time.Duration(l.limits.MaxDuration); most > 0 {
		left = min(left, most-now.Sub(l.start))
	}
	return left
}

// checkTime returns the error of the limit that is reached, or restarts the timer.
func (l *liveLimiter) checkTime() error {
	now := time.Now()
	if most := time.Duration(l.limits.MaxDuration); most > 0 && now.Sub(l.start) >= most {
		return failf(CodeLiveLimit, errBudget, "the live conversation has reached its maximum duration of %s (run_config: live.max_duration)", most)
	}
	if idle := l.limits.idleTimeout(); now.Sub(l.active) >= idle {
		return failf(CodeLiveLimit, errBudget, "the live conversation was idle for %s (run_config: live.idle_timeout)", idle)
	}
	l.timer.Reset(l.remainingTime(now))
	return nil
}

// addTokens counts the tokens of a response, and fails when the limit is reached.
func (l *liveLimiter) addTokens(response *model.Response) error {
	l.tokens += int(response.UsageMetadata.TotalTokenCount)
	if most := l.limits.MaxTokens; most > 0 && l.tokens >= most {
		return failf(CodeLiveLimit, errBudget, "the live conversation has used %d tokens of at most %d (run_config: live.max_tokens)", l.tokens, most)
	}
	return nil
}

package agenthost

import (
	"context"
	"errors"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// pruneEvery is the interval at which serve deletes sessions past their retention.
const pruneEvery = 10 * time.Minute

// pruneRegularly deletes sessions past their app's retention, and old outcomes of deleted sessions, every 10
// minutes, until ctx ends.
// After a clock jump it waits for the next time, when the clock may be right again.
func (h *Host) pruneRegularly(ctx context.Context) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	began := time.Now()
	var clock jumpDetector
	for {
		now := time.Now()
		if jump := clock.measureJump(now, now.Sub(began)); jump > maxClockJump {
			h.logger.Warn("the clock was set forward; expired sessions are deleted at the next interval", "jump", jump, "interval", pruneEvery)
		} else if p := safe.Call(func() { h.pruneExpired(ctx) }); p != nil {
			p.Log(h.logger, "deleting expired sessions panicked")
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Host) pruneExpired(ctx context.Context) {
	for _, app := range h.Apps() {
		if app.Retention() > 0 {
			h.pruneSessions(ctx, app)
		}
		days, err := h.Store().PruneOutcomes(ctx, app.Name(), app.OutcomeRetention())
		if days > 0 {
			h.logger.Info("deleted old outcomes", "app", app.Name(), "days", days, "outcome_retention", app.OutcomeRetention())
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrNoOutcomes) {
			h.logger.Warn("deleting old outcomes failed", "app", app.Name(), "error", err)
		}
	}
}

func (h *Host) pruneSessions(ctx context.Context, app *runtime.App) {
	n, err := h.Store().Prune(ctx, &store.PruneRequest{App: app.Name(), Age: app.Retention(), Interval: pruneEvery, KeepOutcomes: app.OutcomeRetention()})
	if n > 0 {
		h.logger.Info("deleted expired sessions", "app", app.Name(), "sessions", n, "retention", app.Retention())
	}
	if err != nil && ctx.Err() == nil {
		h.logger.Warn("deleting expired sessions failed", "app", app.Name(), "error", err)
	}
}

// maxClockJump is how far the clock may be set forward between two prunings.
const maxClockJump = time.Minute

// A jumpDetector compares the clock, which can be set, with the time since the start, which
// cannot. A machine that was suspended looks like a clock that was set.
type jumpDetector struct {
	wall   time.Time
	uptime time.Duration
}

// measureJump returns how much further the clock went than the time since the last call.
func (d *jumpDetector) measureJump(wall time.Time, uptime time.Duration) (jump time.Duration) {
	wall = wall.Round(0) // without the monotonic reading
	if !d.wall.IsZero() {
		jump = wall.Sub(d.wall) - (uptime - d.uptime)
	}
	d.wall, d.uptime = wall, uptime
	return jump
}

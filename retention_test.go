package agenthost

import (
	"testing"
	"time"
)

// A clock that was set forward since the last pruning is noticed once; one that was set back
// expires nothing.
func TestClockJump(t *testing.T) {
	wall := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	var d jumpDetector
	var uptime time.Duration
	for i, jump := range []time.Duration{0, 0, 60 * 24 * time.Hour, 0, -60 * 24 * time.Hour, time.Second} {
		wall, uptime = wall.Add(pruneEvery+jump), uptime+pruneEvery
		if got := d.measureJump(wall, uptime); got != jump {
			t.Errorf("measurement %d: jump = %v, want %v", i, got, jump)
		}
	}
}

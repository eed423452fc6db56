// The race detector allocates too.

//go:build !race

package aguiserver_test

import "testing"

// A run allocates little more than a turn by /run_sse. The limits are what is reached; they only fall.
func TestTurnAllocations(t *testing.T) {
	count := func(way string) float64 {
		c, i := &benchClient{TB: t, handler: newBenchServer(t, "memory:"), way: way}, 0
		return testing.AllocsPerRun(5*turnsInSession-1, func() { c.runTurn(i); i++ })
	}
	sse := count("run_sse")
	for way, most := range map[string]float64{"message": 38, "thread": 43} {
		if more := count(way) - sse; more > most {
			t.Errorf("%s: a turn allocates %.0f times more than one by /run_sse, at most %.0f are allowed", way, more, most)
		}
	}
}

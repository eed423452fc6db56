// The race detector allocates too.

//go:build !race

package openaiserver_test

import "testing"

// A turn allocates little more than one by /run. The limits are what is reached; they only fall.
func TestTurnAllocations(t *testing.T) {
	count := func(way string) float64 {
		c, i := &benchClient{TB: t, handler: newBenchServer(t, "memory:"), way: way}, 0
		return testing.AllocsPerRun(5*turnsInSession-1, func() { c.runTurn(i); i++ })
	}
	run := count("run")
	for way, most := range map[string]float64{"named": 31, "transcript": 34, "response": 74} {
		if more := count(way) - run; more > most {
			t.Errorf("%s: a turn allocates %.0f times more than one by /run, at most %.0f are allowed", way, more, most)
		}
	}
}

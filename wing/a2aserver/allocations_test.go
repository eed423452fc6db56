// The race detector allocates too.

//go:build !race

package a2aserver_test

import "testing"

// A message allocates little more than a turn by /run, and a streamed one than by /run_sse. The limits are what is
// reached; they only fall.
func TestTurnAllocations(t *testing.T) {
	var counts []float64
	for _, way := range ways {
		handler, i := newBenchServer(t), 0
		counts = append(counts, testing.AllocsPerRun(5*turnsInSession-1, func() { way.runTurn(t, handler, i); i++ }))
	}
	for i, most := range map[int]float64{1: 76, 3: 104} {
		if more := counts[i] - counts[i-1]; more > most {
			t.Errorf("%s: a turn allocates %.0f times more than one by %s, at most %.0f are allowed", ways[i].name, more, ways[i-1].path, most)
		}
	}
}

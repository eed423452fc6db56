package main

import (
	"math"
	"testing"
	"time"
)

// The fit finds a leak despite garbage collector noise and a warm-up phase.
func TestFitGrowth(t *testing.T) {
	for _, leak := range []float64{0, 0.5} {
		e := &hostSoak{soakConfig: soakConfig{measureEvery: time.Second, reloadEvery: 10 * time.Second}}
		for i := range 1200 {
			mb := 80 + leak*float64(i)/10 + 5*math.Sin(float64(i)/3)
			if i < 400 {
				mb -= float64(400-i) / 10
			}
			e.liveMB = append(e.liveMB, mb)
		}
		if g := e.fitGrowth(); math.Abs(g.slope-leak) > 4*g.stdErr || g.stdErr > 0.05 {
			t.Errorf("growth with a leak of %v = %+v", leak, g)
		}
	}
}

package statistics

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// simulate returns after how many sessions each rollout was aborted, sorted; one that was not has the
// number of its sessions plus 1. abort returns whether the i-th session aborts its rollout.
func simulate(rollouts, sessions int, begin func() (abort func() bool)) []int {
	ends := make([]int, rollouts)
	for i := range ends {
		abort := begin()
		ends[i] = sessions + 1
		for n := range sessions {
			if abort() {
				ends[i] = n + 1
				break
			}
		}
	}
	slices.Sort(ends)
	return ends
}

// countAborts returns how many rollouts were aborted.
func countAborts(ends []int, sessions int) int {
	n, _ := slices.BinarySearch(ends, sessions+1)
	return n
}

// A ceiling of 10 % finds a rate above it after few sessions, and stops at most one in 100 rollouts
// with half the rate. At the limit itself it is right in 95 %.
func TestCeiling(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	run := func(rate float64, sessions int) []int {
		return simulate(1000, sessions, func() func() bool {
			c := Ceiling{Limit: 0.1, Alpha: 0.05}
			return func() bool { c.Observe(random.Float64() < rate); return c.IsExceeded() }
		})
	}
	for rate, want := range map[float64]int{0.3: 20, 0.5: 7, 1: 2} {
		if got := run(rate, 1000)[500]; float64(got) > 1.3*float64(want) {
			t.Errorf("a rate of %v is found after %d sessions, want %d", rate, got, want)
		}
	}
	for rate, want := range map[float64]int{0.05: 10, 0.1: 50} {
		if got := countAborts(run(rate, 300), 300); got > want {
			t.Errorf("%d of 1000 rollouts with a rate of %v were aborted, want at most %d", got, rate, want)
		}
	}
	// The control: stopping at 3 failures above the limit aborts a quarter of the healthy ones.
	naive := simulate(1000, 300, func() func() bool {
		var a Counts
		return func() bool { a.addOutcome(random.Float64() < 0.05); return a.Hits >= 3 && a.Hits/a.N > 0.1 }
	})
	if got := countAborts(naive, 300); got < 100 {
		t.Errorf("the plain rule aborts %d of 1000 healthy rollouts: the simulation shows no difference", got)
	}
}

// A comparison aborts at most 5 % of the rollouts without a difference, at any share and through
// steps, and finds a difference within 1.3 times the published sessions.
func TestComparison(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	compare := func(oldRate, newRate float64, shares []float64, rollouts, sessions int) []int {
		return simulate(rollouts, sessions, func() func() bool {
			c, n := Comparison{Alpha: 0.05}, 0
			return func() bool {
				share := shares[min(n*len(shares)/sessions, len(shares)-1)]
				n++
				isNew, rate := random.Float64() < share, oldRate
				if isNew {
					rate = newRate
				}
				c.Observe(isNew, share, random.Float64() < rate)
				return c.IsWorse()
			}
		})
	}
	const rollouts, sessions = 1000, 2000
	for _, shares := range [][]float64{{0.05}, {0.2}, {0.5}, {0.05, 0.2, 0.5}} {
		for _, rate := range []float64{0.02, 0.1, 0.5} {
			if got := countAborts(compare(rate, rate, shares, rollouts, sessions), sessions); got > rollouts/20 {
				t.Errorf("%d of %d rollouts at %v with equal rates of %v were aborted, want at most 5 %%", got, rollouts, shares, rate)
			}
		}
		if got := countAborts(compare(0.1, 0.02, shares, rollouts, sessions), sessions); got > rollouts/100 {
			t.Errorf("%d of %d better revisions were aborted at %v", got, rollouts, shares)
		}
	}
	for _, tt := range []struct {
		share, newRate float64
		sessions       int
	}{{0.05, 0.3, 586}, {0.2, 0.3, 169}, {0.5, 0.3, 103}, {0.05, 0.2, 1670}, {0.5, 0.2, 444}} {
		if got := compare(0.1, tt.newRate, []float64{tt.share}, 300, 20_000)[150]; float64(got) > 1.3*float64(tt.sessions) {
			t.Errorf("10 %% against %.0f %% at a share of %v is found after %d sessions, want %d", 100*tt.newRate, tt.share, got, tt.sessions)
		}
	}
}

// A difference below the margin aborts nothing, however sure it is; without outcomes nothing does.
func TestComparisonMargin(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	wide, narrow := Comparison{Alpha: 0.05, Margin: 0.2}, Comparison{Alpha: 0.05, Margin: 0.02}
	if new(Ceiling).IsExceeded() || wide.IsWorse() {
		t.Error("aborted without an outcome")
	}
	for range 5000 {
		isNew := random.Float64() < 0.5
		hit := random.Float64() < map[bool]float64{false: 0.1, true: 0.2}[isNew]
		wide.Observe(isNew, 0.5, hit)
		narrow.Observe(isNew, 0.5, hit)
	}
	if wide.IsWorse() || !narrow.IsWorse() {
		t.Errorf("worse by 0.1: with a margin of 0.2 %v, of 0.02 %v", wide.IsWorse(), narrow.IsWorse())
	}
}

package evalreport

import (
	"math"
	"slices"
	"testing"
)

func checkNear(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9 {
		t.Errorf("%s = %v, want %v", what, got, want)
	}
}

// pass@k and pass^k are the shares among all ways to choose k runs.
func TestPassRatesCountAllDraws(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for passed := 0; passed <= n; passed++ {
			for k := 1; k <= n; k++ {
				anyPassed, allPassed, ways := 0, 0, 0
				for set := range 1 << n {
					drawn, good := 0, 0
					for i := range n {
						if set>>i&1 == 1 {
							drawn++
							if i < passed {
								good++
							}
						}
					}
					if drawn != k {
						continue
					}
					ways++
					if good > 0 {
						anyPassed++
					}
					if good == k {
						allPassed++
					}
				}
				checkNear(t, "PassAtK", estimatePassAtK(n, passed, k), float64(anyPassed)/float64(ways))
				checkNear(t, "PassHatK", estimatePassHatK(n, passed, k), float64(allPassed)/float64(ways))
			}
		}
	}
	checkNear(t, "PassAtK of 1000 runs", estimatePassAtK(1000, 500, 1), 0.5)
}

// The intervals in published tables; they never leave 0 to 1.
func TestWilsonInterval(t *testing.T) {
	for _, tt := range []struct {
		n, passed int
		low, high float64
	}{
		{10, 8, 0.4901624715, 0.9433178485},
		{5, 5, 0.5655175, 1},
		{5, 0, 0, 0.4344825},
		{0, 0, 0, 1},
	} {
		low, high := estimateShare(tt.n, tt.passed)
		if math.Abs(low-tt.low) > 1e-6 || math.Abs(high-tt.high) > 1e-6 {
			t.Errorf("estimateShare(%d, %d) = %v, %v, want %v, %v", tt.n, tt.passed, low, high, tt.low, tt.high)
		}
	}
}

// McNemar's exact test is the binomial test on the pairs that differ.
func TestMcNemarExactValues(t *testing.T) {
	for _, tt := range []struct {
		better, worse int
		p             float64
	}{{0, 0, 1}, {0, 1, 1}, {3, 3, 1}, {0, 6, 0.03125}, {6, 0, 0.03125}, {2, 8, 0.109375}, {0, 5, 0.0625}} {
		checkNear(t, "McNemarTest", testPairs(tt.better, tt.worse), tt.p)
	}
	if p := testPairs(40_000, 60_000); !(p >= 0 && p < 1e-9) {
		t.Errorf("McNemarTest of large counts = %v, want a small number", p)
	}
}

// Fisher's exact test: the tea tasting lady, and shares of passed runs.
func TestFisherExactValues(t *testing.T) {
	for _, tt := range []struct {
		n1, passed1, n2, passed2 int
		p                        float64
	}{
		{4, 3, 4, 1, 17.0 / 70},
		{5, 5, 5, 1, 6.0 / 252},
		{5, 5, 5, 4, 0.5},
		{5, 5, 1, 0, 1.0 / 6},
		{5, 0, 5, 5, 1},
		{1, 1, 1, 1, 1},
	} {
		checkNear(t, "FisherTest", testShares(tt.n1, tt.passed1, tt.n2, tt.passed2), tt.p)
	}
}

// The permutation test tries all signs for few differences; the estimate for many is near the
// exact p, and is the same each time.
func TestPermutationExactAndEstimated(t *testing.T) {
	checkNear(t, "no differences", testDifferences([]float64{0, 0}), 1)
	checkNear(t, "six equal signs", testDifferences([]float64{0.1, 0.2, 0.3, 0, 0.4, 0.5, 0.6}), 2.0/64)
	checkNear(t, "both signs", testDifferences([]float64{0.5, -0.5}), 1)
	many := slices.Repeat([]float64{0.1, 0.1, 0.1, -0.1}, 8)
	// 24 of 32 equal differences: the sign test has the exact p.
	exact, estimate := testPairs(24, 8), testDifferences(many)
	if math.Abs(exact-estimate) > 0.002 || estimate != testDifferences(many) {
		t.Errorf("PermutationTest = %v, want %v", estimate, exact)
	}
}

// Holm's method: the smallest p counts for all tests, the next one for the others.
func TestHolmAdjustsSmallestFirst(t *testing.T) {
	for i, want := range []float64{0.03, 0.06, 0.06} {
		checkNear(t, "AdjustHolm", adjustTests([]float64{0.01, 0.04, 0.03})[i], want)
	}
	if got := adjustTests(nil); len(got) != 0 {
		t.Errorf("AdjustHolm of nothing = %v", got)
	}
}

package evalreport

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// testPairs returns the exact two-sided p of McNemar's test: among the pairs that differ,
// better and worse are equally probable. It is also the sign test.
func testPairs(better, worse int) float64 {
	n := better + worse
	if n == 0 {
		return 1
	}
	tail := 0.0
	for i := range min(better, worse) + 1 {
		tail += math.Exp(logChoose(n, i) - float64(n)*math.Ln2)
	}
	return min(2*tail, 1)
}

// testShares returns the one-sided p of Fisher's exact test: the probability that the second
// sample has as few passed runs or fewer, if both have the same probability to pass.
func testShares(n1, passed1, n2, passed2 int) float64 {
	all, passed := n1+n2, passed1+passed2
	tail := 0.0
	for i := max(passed-n1, 0); i <= passed2; i++ {
		tail += math.Exp(logChoose(passed, i) + logChoose(all-passed, n2-i) - logChoose(all, n2))
	}
	return min(tail, 1)
}

// logChoose returns the binomial coefficient's logarithm, which is -Inf for 0.
func logChoose(n, k int) float64 {
	if k < 0 || k > n {
		return math.Inf(-1)
	}
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

const (
	// maxExact is the number of pairs up to which all signs are tried.
	maxExact = 16
	// samples is the number of random signs for more pairs.
	samples = 20_000
)

// testDifferences returns the two-sided p of the paired permutation test (Fisher 1935): how
// often differences with random signs have a sum that is at least as far from 0. Pairs
// without a difference do not matter. Up to 16 pairs it is exact, else it is estimated from
// 20 000 samples with a fixed seed.
func testDifferences(differences []float64) float64 {
	d := slices.DeleteFunc(slices.Clone(differences), func(v float64) bool { return v == 0 })
	if len(d) == 0 {
		return 1
	}
	sum, scale := 0.0, 0.0
	for _, v := range d {
		sum += v
		scale += math.Abs(v)
	}
	limit := math.Abs(sum) - scale*1e-12 // sums in another order differ by rounding
	if len(d) > maxExact {
		return sampleSigns(d, limit)
	}
	extreme := 0
	for signs := range 1 << len(d) {
		if math.Abs(sumSigned(d, uint64(signs))) >= limit {
			extreme++
		}
	}
	return float64(extreme) / float64(int(1)<<len(d))
}

func sampleSigns(d []float64, limit float64) float64 {
	random := rand.New(rand.NewPCG(1, 2))
	extreme := 1
	for range samples {
		sum := 0.0
		for block := range slices.Chunk(d, 64) {
			sum += sumSigned(block, random.Uint64())
		}
		if math.Abs(sum) >= limit {
			extreme++
		}
	}
	return float64(extreme) / (samples + 1)
}

// sumSigned adds up to 64 values, each with its bit's sign.
func sumSigned(d []float64, signs uint64) float64 {
	sum := 0.0
	for i, v := range d {
		if signs>>i&1 == 1 {
			v = -v
		}
		sum += v
	}
	return sum
}

// adjustTests adjusts the p of several tests by Holm's method (1979), in their order: a test
// is significant if its adjusted p is.
func adjustTests(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted, largest := make([]float64, len(p)), 0.0
	for rank, i := range order {
		largest = max(largest, min(p[i]*float64(len(p)-rank), 1))
		adjusted[i] = largest
	}
	return adjusted
}

// Package evalstats has the statistics of evaluations: shares of passed runs, and paired
// comparisons of two results. All of it is exact, or repeatable for the same input.
package evalstats

import "math"

// PassAtK returns the unbiased estimate of the probability that at least one of k runs
// passes, from n runs of which passed did: 1 - C(n-passed, k) / C(n, k) (Chen et al. 2021,
// Evaluating Large Language Models Trained on Code). 1 ≤ k ≤ n.
func PassAtK(n, passed, k int) float64 { return 1 - drawnShare(n, n-passed, k) }

// PassHatK returns the unbiased estimate of the probability that all of k runs pass, from n
// runs of which passed did: C(passed, k) / C(n, k) (Yao et al. 2024, τ-bench). 1 ≤ k ≤ n.
func PassHatK(n, passed, k int) float64 { return drawnShare(n, passed, k) }

// drawnShare returns C(marked, k) / C(n, k): the probability that k of n runs, drawn without
// replacement, are all marked.
func drawnShare(n, marked, k int) float64 {
	share := 1.0
	for i := range k {
		share *= float64(max(marked-i, 0)) / float64(n-i)
	}
	return share
}

// z95 is the quantile of a two-sided 95 % interval of the normal distribution.
const z95 = 1.959963984540054

// WilsonInterval returns the 95 % score interval of a share (Wilson 1927). Without runs it
// is from 0 to 1.
func WilsonInterval(n, passed int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	size, share := float64(n), float64(passed)/float64(n)
	center := share + z95*z95/(2*size)
	spread := z95 * math.Sqrt(share*(1-share)/size+z95*z95/(4*size*size))
	scale := 1 + z95*z95/size
	return max((center-spread)/scale, 0), min((center+spread)/scale, 1)
}

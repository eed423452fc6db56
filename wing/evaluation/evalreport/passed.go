package evalreport

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// maxK is the largest k for pass@k and pass^k in a report.
const maxK = 10

// A PassRate is the share of a case's runs that passed.
type PassRate struct {
	Share float64 `json:"share"`
	// Low and High are the 95 % Wilson score interval.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// AtK and HatK are the unbiased estimates for pass@k and pass^k, for k from 1 to the
	// number of runs, at most 10.
	AtK  []float64 `json:"passAtK"`
	HatK []float64 `json:"passHatK"`
}

// newPassRate returns nil for a single run.
func newPassRate(runs, passed int) *PassRate {
	if runs < 2 {
		return nil
	}
	p := &PassRate{Share: float64(passed) / float64(runs)}
	p.Low, p.High = estimateShare(runs, passed)
	for k := 1; k <= min(runs, maxK); k++ {
		p.AtK = append(p.AtK, estimatePassAtK(runs, passed, k))
		p.HatK = append(p.HatK, estimatePassHatK(runs, passed, k))
	}
	return p
}

// passColumns are the columns for cases with several runs; k is 2, the first that differs
// from the share.
func passColumns() []column {
	rate := func(format func(p *PassRate) string) func(c *Case) string {
		return func(c *Case) string {
			if c.PassRate == nil {
				return unknown
			}
			return format(c.PassRate)
		}
	}
	return []column{
		{title: "passed", format: formatPassedRuns},
		{title: "95 % interval", format: rate(func(p *PassRate) string { return formatScore(p.Low) + " to " + formatScore(p.High) })},
		{title: "pass@2", format: rate(func(p *PassRate) string { return formatScore(p.AtK[1]) })},
		{title: "pass^2", format: rate(func(p *PassRate) string { return formatScore(p.HatK[1]) })},
	}
}

// writePassRates prints the mean pass@k and pass^k over the cases.
func writePassRates(w io.Writer, cases []*Case) {
	for _, line := range []struct {
		title  string
		values func(p *PassRate) []float64
	}{
		{"pass@k", func(p *PassRate) []float64 { return p.AtK }},
		{"pass^k", func(p *PassRate) []float64 { return p.HatK }},
	} {
		var means []string
		for k := range maxK {
			sum, n := 0.0, 0
			for _, c := range cases {
				if c.PassRate != nil && k < len(line.values(c.PassRate)) {
					sum += line.values(c.PassRate)[k]
					n++
				}
			}
			if n > 0 {
				means = append(means, fmt.Sprintf("%s (k=%d)", formatScore(sum/float64(n)), k+1))
			}
		}
		if len(means) > 0 {
			fmt.Fprintf(w, "%s, mean over the cases: %s\n", line.title, strings.Join(means, ", "))
		}
	}
}

// estimatePassAtK returns the unbiased estimate of the probability that at least one of k runs
// passes, from n runs of which passed did: 1 - C(n-passed, k) / C(n, k) (Chen et al. 2021,
// Evaluating Large Language Models Trained on Code). 1 ≤ k ≤ n.
func estimatePassAtK(n, passed, k int) float64 { return 1 - drawnShare(n, n-passed, k) }

// estimatePassHatK returns the unbiased estimate of the probability that all k runs pass, from n
// runs of which passed did: C(passed, k) / C(n, k) (Yao et al. 2024, τ-bench). 1 ≤ k ≤ n.
func estimatePassHatK(n, passed, k int) float64 { return drawnShare(n, passed, k) }

// drawnShare returns C(marked, k) / C(n, k): the probability that k runs, drawn from n
// without replacement, are all marked.
func drawnShare(n, marked, k int) float64 {
	share := 1.0
	for i := range k {
		share *= float64(max(marked-i, 0)) / float64(n-i)
	}
	return share
}

// z95 is the normal distribution's quantile for a two-sided 95 % interval.
const z95 = 1.959963984540054

// estimateShare returns a share's 95 % score interval (Wilson 1927). Without runs it is from
// 0 to 1.
func estimateShare(n, passed int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	size, share := float64(n), float64(passed)/float64(n)
	center := share + z95*z95/(2*size)
	spread := z95 * math.Sqrt(share*(1-share)/size+z95*z95/(4*size*size))
	scale := 1 + z95*z95/size
	return max((center-spread)/scale, 0), min((center+spread)/scale, 1)
}

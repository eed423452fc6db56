package evalreport

import (
	"fmt"
	"io"
	"strings"

	"agenthost/wing/evaluation/evalstats"
)

// maxK is the largest k of pass@k and pass^k in a report.
const maxK = 10

// A PassRate is the share of the runs of a case that passed.
type PassRate struct {
	Share float64 `json:"share"`
	// Low and High are the 95 % Wilson score interval.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// AtK and HatK are the unbiased estimates of pass@k and pass^k, for k from 1 to the
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
	p.Low, p.High = evalstats.WilsonInterval(runs, passed)
	for k := 1; k <= min(runs, maxK); k++ {
		p.AtK = append(p.AtK, evalstats.PassAtK(runs, passed, k))
		p.HatK = append(p.HatK, evalstats.PassHatK(runs, passed, k))
	}
	return p
}

// passColumns are the columns of cases with several runs; k is 2, the first that differs
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

// writePassRates prints the means of pass@k and pass^k over the cases.
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
			fmt.Fprintf(w, "%s, mean of the cases: %s\n", line.title, strings.Join(means, ", "))
		}
	}
}

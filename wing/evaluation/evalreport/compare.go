package evalreport

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalrun"
)

// significant is the p below which a difference counts.
const significant = 0.05

// How a case or a score changed against the baseline.
const (
	better = "better"
	worse  = "worse"
	equal  = "equal"
	added  = "new"
)

// A Comparison compares a set's run with its baseline.
type Comparison struct {
	SetID    string `json:"set"`
	Model    string `json:"model,omitempty"`
	Baseline string `json:"baseline"`
	// BaselineRevision and BaselineModel are empty if the baseline does not have them.
	BaselineRevision string `json:"baselineRevision,omitempty"`
	BaselineModel    string `json:"baselineModel,omitempty"`
	// Better, Worse and Equal count the cases in both by their status, or by their shares of
	// passed runs. P results from McNemar's exact test.
	Better int     `json:"better"`
	Worse  int     `json:"worse"`
	Equal  int     `json:"equal"`
	P      float64 `json:"p"`
	// Missing are the set's cases that only the baseline has. They do not count.
	Missing []string           `json:"missing,omitempty"`
	Metrics []MetricComparison `json:"metrics"`
	// Usage and BaselineUsage are the sums over the cases in both.
	Usage         eval.CaseUsage `json:"usage"`
	BaselineUsage eval.CaseUsage `json:"baselineUsage"`
	// Regressions are the reasons why the run is a regression; none if it is not.
	Regressions []string `json:"regressions,omitempty"`
}

// A MetricComparison compares the scores for cases that have one in both results.
type MetricComparison struct {
	Name     string  `json:"name"`
	Better   int     `json:"better"`
	Worse    int     `json:"worse"`
	Equal    int     `json:"equal"`
	Mean     float64 `json:"mean"`
	Baseline float64 `json:"baselineMean"`
	// P results from the paired permutation test, adjusted for the number of metrics by
	// Holm's method.
	P float64 `json:"p"`

	differences []float64
}

// A CaseBaseline is a case's baseline.
type CaseBaseline struct {
	Status     string `json:"status"`
	Runs       int    `json:"runs"`
	PassedRuns int    `json:"passedRuns"`
	Change     string `json:"change"`
	// P results from Fisher's exact test if there are several runs.
	P *float64 `json:"p,omitempty"`
	// Regression reports that the case is a regression.
	Regression bool `json:"regression"`
	// Scores are by metric.
	Scores map[string]*float64 `json:"scores"`
}

// compareRun compares a run's cases with a baseline, and adds the comparison.
func (r *Report) compareRun(job *evalrun.Job, cases []*Case, b *eval.SetResult) {
	if b == nil {
		return
	}
	before := map[string]*eval.Outcome{}
	for _, o := range b.Outcomes(job.AllowNotEvaluated) {
		before[o.CaseID] = o
	}
	result := &Comparison{SetID: b.SetID, Baseline: b.ID, BaselineRevision: b.Revision, BaselineModel: b.Model}
	for _, c := range cases {
		result.Model = c.Model
		result.addCase(c, before[c.CaseID])
	}
	if len(cases) == len(job.Set.Cases) {
		for id := range before {
			if job.Set.Case(id) == nil {
				result.Missing = append(result.Missing, id)
			}
		}
		slices.Sort(result.Missing)
	}
	result.P = testPairs(result.Better, result.Worse)
	result.compareMetrics()
	r.Comparisons = append(r.Comparisons, result)
}

func (r *Comparison) addCase(c *Case, before *eval.Outcome) {
	if before == nil {
		c.Baseline = &CaseBaseline{Change: added}
		return
	}
	b := &CaseBaseline{Status: before.Status.String(), Runs: len(before.Runs), PassedRuns: before.PassedRuns, Scores: map[string]*float64{}}
	c.Baseline = b
	// The products compare the shares without rounding.
	switch now, then := c.PassedRuns*b.Runs, b.PassedRuns*len(c.Runs); {
	case now > then:
		b.Change = better
		r.Better++
	case now < then:
		b.Change = worse
		r.Worse++
	default:
		b.Change = equal
		r.Equal++
	}
	b.Regression = b.Change == worse
	if len(c.Runs) > 1 || b.Runs > 1 {
		p := testShares(b.Runs, b.PassedRuns, len(c.Runs), c.PassedRuns)
		b.P, b.Regression = &p, b.Regression && p < significant
	}
	if b.Regression {
		r.Regressions = append(r.Regressions, fmt.Sprintf("%s:%s %s, was %s", c.SetID, c.CaseID, formatOutcomeOf(c.Status.String(), c.PassedRuns, len(c.Runs)), formatOutcomeOf(b.Status, b.PassedRuns, b.Runs)))
	}
	for _, m := range before.Metrics {
		b.Scores[m.Metric] = m.Score
	}
	for _, m := range c.Metrics {
		if score := b.Scores[m.Metric]; m.Score != nil && score != nil {
			r.addScore(m.Metric, *m.Score, *score)
		}
	}
	r.Usage.Add(&c.Usage)
	r.BaselineUsage.Add(&before.Usage)
}

// addScore adds a case's scores; sums become means at the end.
func (r *Comparison) addScore(name string, now, before float64) {
	i := slices.IndexFunc(r.Metrics, func(m MetricComparison) bool { return m.Name == name })
	if i < 0 {
		i = len(r.Metrics)
		r.Metrics = append(r.Metrics, MetricComparison{Name: name})
	}
	m := &r.Metrics[i]
	m.Mean += now
	m.Baseline += before
	difference := now - before
	switch {
	case math.Abs(difference) < 1e-9:
		difference = 0
		m.Equal++
	case difference > 0:
		m.Better++
	default:
		m.Worse++
	}
	m.differences = append(m.differences, difference)
}

// compareMetrics tests each metric's scores.
func (r *Comparison) compareMetrics() {
	p := make([]float64, len(r.Metrics))
	for i := range r.Metrics {
		m := &r.Metrics[i]
		m.Mean /= float64(len(m.differences))
		m.Baseline /= float64(len(m.differences))
		p[i] = testDifferences(m.differences)
	}
	for i, adjusted := range adjustTests(p) {
		m := &r.Metrics[i]
		if m.P = adjusted; m.P < significant && m.Mean < m.Baseline {
			r.Regressions = append(r.Regressions, fmt.Sprintf("%s fell from %s to %s on average, p %s", shortMetricName(m.Name), formatScore(m.Baseline), formatScore(m.Mean), formatP(m.P)))
		}
	}
}

// writeComparisons prints the comparisons with baselines.
func (r *Report) writeComparisons(w io.Writer) {
	for _, c := range r.Comparisons {
		fmt.Fprintf(w, "baseline of %s: %s", formatSubject(c.SetID, c.Model), c.Baseline)
		if origin := strings.TrimSpace(abbreviateRevision(c.BaselineRevision) + " " + c.BaselineModel); origin != "" {
			fmt.Fprintf(w, " (%s)", origin)
		}
		fmt.Fprintf(w, "\n  %s better, %d worse, %d equal, p %s\n", formatCount(c.Better, "case"), c.Worse, c.Equal, formatP(c.P))
		for _, m := range c.Metrics {
			fmt.Fprintf(w, "  %s: mean %s, was %s; %d better, %d worse, %d equal, p %s\n",
				shortMetricName(m.Name), formatScore(m.Mean), formatScore(m.Baseline), m.Better, m.Worse, m.Equal, formatP(m.P))
		}
		now, before := c.Usage.Turns, c.BaselineUsage.Turns
		if now.Tokens() > 0 && before.Tokens() > 0 {
			fmt.Fprintf(w, "  tokens: %d, was %d\n", now.Tokens(), before.Tokens())
		}
		if now != nil && now.Cost != nil && before != nil && before.Cost != nil {
			fmt.Fprintf(w, "  cost: %s, was %s\n", formatCost(now), formatCost(before))
		}
		if len(c.Missing) > 0 {
			fmt.Fprintf(w, "  only in the baseline: %s\n", strings.Join(c.Missing, ", "))
		}
		for _, reason := range c.Regressions {
			fmt.Fprintf(w, "  regression: %s\n", reason)
		}
	}
}

// hasRegression reports whether the case makes its set's run a regression, or without a
// baseline whether the case did not pass.
func (c *Case) hasRegression() bool {
	if c.Baseline == nil || c.Baseline.Change == added {
		return c.Status != eval.Passed
	}
	return c.Baseline.Regression
}

// formatBaseline formats a case's cell in the table.
func formatBaseline(c *Case) string {
	switch b := c.Baseline; {
	case b == nil:
		return unknown
	case b.Change == added:
		return added
	case b.Regression:
		return "regression from " + formatOutcomeOf(b.Status, b.PassedRuns, b.Runs)
	case b.Change == equal:
		return equal
	default:
		return b.Change + " than " + formatOutcomeOf(b.Status, b.PassedRuns, b.Runs)
	}
}

// formatOutcomeOf formats a status, or the passed runs if there are several.
func formatOutcomeOf(status string, passed, runs int) string {
	if runs > 1 {
		return fmt.Sprintf("%d/%d", passed, runs)
	}
	return status
}

// formatSubject formats a set and the model that ran it.
func formatSubject(set, model string) string {
	if model == "" {
		return set
	}
	return set + " with " + model
}

func abbreviateRevision(revision string) string { return revision[:min(len(revision), 12)] }

// formatP formats a p; only its size matters.
func formatP(p float64) string {
	if p > 0 && p < 0.001 {
		return "< 0.001"
	}
	return "= " + formatScore(p)
}

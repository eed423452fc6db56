package evalreport

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/wing/evaluation/eval"
)

// compareScores compares cases that all pass, with these scores now and before.
func compareScores(now, before []float64) *Comparison {
	c := &Comparison{}
	for i := range now {
		c.addCase(
			&Case{Outcome: newPassed(fmt.Sprint(i), &now[i])},
			newPassed(fmt.Sprint(i), &before[i]),
		)
	}
	c.compareMetrics()
	return c
}

// newPassed returns a case that has passed with a score.
func newPassed(id string, score *float64) *eval.Outcome {
	return &eval.Outcome{
		SetID: "s", CaseID: id, Status: eval.Passed, Runs: []*eval.CaseResult{{Status: eval.Passed}}, PassedRuns: 1,
		Metrics: []*eval.MetricResult{{Metric: eval.ResponseMatch, Score: score}},
	}
}

// Scores that fall significantly are a regression though all cases pass; so few that it may
// be chance are not.
func TestMetricRegression(t *testing.T) {
	before := []float64{1, 1, 1, 1, 1, 1, 1}
	now := []float64{0.9, 0.9, 0.85, 0.9, 0.95, 0.9, 1}
	if diff := cmp.Diff([]string{"response_match fell from 1 to 0.914 on average, p = 0.031"}, compareScores(now, before).Regressions); diff != "" {
		t.Errorf("regressions (-want +got):\n%s", diff)
	}
	if got := compareScores(before, now).Regressions; got != nil {
		t.Errorf("regressions of better scores = %v", got)
	}
	if got := compareScores(now[:4], before[:4]).Regressions; got != nil {
		t.Errorf("regressions of four cases = %v", got)
	}
}

// The first characters of p suffice.
func TestFormatP(t *testing.T) {
	for p, want := range map[float64]string{1: "= 1", 0.03125: "= 0.031", 0.0004: "< 0.001", 0: "= 0"} {
		if got := formatP(p); got != want {
			t.Errorf("formatP(%v) = %q, want %q", p, got, want)
		}
	}
}

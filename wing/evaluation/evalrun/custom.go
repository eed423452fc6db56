package evalrun

import (
	"context"
	"fmt"
	"maps"

	"agenthost/internal/turn"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// customMetrics returns the functions for a case's custom metrics: the Go program's, and the
// expressions in its criteria.
func (c *caseRun) customMetrics(registered map[string]eval.MeasureFunc) map[string]eval.MeasureFunc {
	all := maps.Clone(registered)
	if all == nil {
		all = map[string]eval.MeasureFunc{}
	}
	for _, m := range c.job.measuresOf(c.c) {
		if m.Criterion != nil && m.Criterion.Expr != "" {
			all[m.Metric] = c.measureExpression
		}
	}
	return all
}

// hasExpressions reports whether a metric in the case reads turn outcomes.
func (c *caseRun) hasExpressions() bool {
	for _, m := range c.job.measuresOf(c.c) {
		if m.Criterion != nil && m.Criterion.Expr != "" {
			return true
		}
	}
	return false
}

// addOutcome keeps what expressions read from the turn that has just ended.
func (c *caseRun) addOutcome(ctx context.Context, o *turn.Outcome) error {
	var err error
	if o.Session, err = c.host.Store().Sessions.Get(ctx, c.key, nil); err != nil {
		return fmt.Errorf("reading the session: %w", err)
	}
	if o.Artifacts, err = c.host.Store().Artifacts.Keys(ctx, c.key); err != nil {
		return fmt.Errorf("listing the artifacts: %w", err)
	}
	c.outcomes = append(c.outcomes, o)
	return nil
}

// measureExpression scores each turn by the criterion's expression. If it cannot be evaluated
// for a turn, the metric is not evaluated.
func (c *caseRun) measureExpression(ctx context.Context, in *eval.Input) (*eval.Scores, error) {
	e, err := evalfile.CompileExpression(in.Criterion.Expr, nil)
	if err != nil {
		return nil, err
	}
	reasons := make([]string, len(in.Actual))
	scores := make([]*float64, len(in.Actual))
	for i, actual := range in.Actual {
		t := &evalfile.ScoredTurn{Outcome: c.outcomes[i], Actual: actual, Number: i + 1, Count: len(in.Actual)}
		if in.Expected != nil {
			t.Expected = in.Expected[i]
		}
		scores[i], reasons[i], err = e.ScoreTurn(ctx, t.Vars())
		if err != nil {
			return nil, fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	s := eval.ScoreTurns(in, func(i int) *float64 { return scores[i] })
	for i, t := range s.Turns {
		if t.Status == eval.Failed {
			t.Reason = in.Criterion.Expr + ": " + reasons[i]
		}
	}
	return s, nil
}

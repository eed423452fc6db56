package eval

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"agenthost/internal/safe"
)

// Options are what an evaluation needs besides cases and turns.
type Options struct {
	// Judges opens the judges for metrics; without it those metrics are not evaluated.
	Judges Judges
	// Service scores the metrics whose criterion has [VertexJudge] as judge.
	Service Service
	// Custom maps metric names, and the function names that a config declares for them, to
	// custom metrics' functions.
	Custom map[string]MeasureFunc
	// AllowNotEvaluated lets a case pass by its other metrics if one was not evaluated, as
	// ADK does.
	AllowNotEvaluated bool
}

// Evaluate scores the turns from one run. A metric that fails is NotEvaluated, and a note
// contains the reason; a different number of turns fails the case. The caller fills in the
// set and the session. It may be called concurrently.
func (o *Options) Evaluate(ctx context.Context, c *Case, actual []*Invocation, measures []*Measure) *CaseResult {
	e := &evaluation{Options: o, result: &CaseResult{CaseID: c.ID, Overall: []*MetricResult{}, Turns: []*TurnResult{}}}
	e.in.Scenario, e.in.Judges, e.in.Service = c.Scenario, o.Judges, o.Service
	if c.Conversation != nil {
		e.in.Expected = c.Conversation
		if len(actual) != len(c.Conversation) {
			e.failCase(fmt.Sprintf("the run has %d turns, expected %d", len(actual), len(c.Conversation)))
			return e.result
		}
	}
	if err := e.addTurns(c, actual); err != nil {
		e.failCase(err.Error())
		return e.result
	}
	for _, m := range measures {
		if metric, ok := FindMetric(m.Metric); !ok || metric.appliesTo(c, m.Criterion) {
			e.addMetric(ctx, m)
		}
	}
	e.setFinalStatus()
	return e.result
}

// FailedCase returns the result for a case whose run failed.
func FailedCase(c *Case, reason string) *CaseResult {
	e := &evaluation{result: &CaseResult{CaseID: c.ID, Overall: []*MetricResult{}, Turns: []*TurnResult{}}}
	e.failCase(reason)
	return e.result
}

// An evaluation scores one case.
type evaluation struct {
	*Options
	in     Input
	result *CaseResult
}

func (e *evaluation) failCase(reason string) {
	e.result.Status = Failed
	e.result.Notes = append(e.result.Notes, &Note{Reason: reason})
}

// addTurns pairs actual with expected turns, and adds the rubrics from the case and the
// expected turn to the actual one.
func (e *evaluation) addTurns(c *Case, actual []*Invocation) error {
	for i, inv := range actual {
		turn := *inv
		turn.Rubrics = append(append([]*Rubric{}, inv.Rubrics...), c.Rubrics...)
		t := &TurnResult{Actual: &turn, Metrics: []*MetricResult{}}
		if e.in.Expected != nil {
			t.Expected = e.in.Expected[i]
			turn.Rubrics = append(turn.Rubrics, t.Expected.Rubrics...)
		}
		seen := map[string]bool{}
		for _, r := range turn.Rubrics {
			if seen[r.ID] {
				return fmt.Errorf("rubric %q appears more than once in turn %d", r.ID, i+1)
			}
			seen[r.ID] = true
		}
		e.in.Actual = append(e.in.Actual, &turn)
		e.result.Turns = append(e.result.Turns, t)
	}
	return nil
}

func (e *evaluation) addMetric(ctx context.Context, m *Measure) {
	if metric, ok := FindMetric(m.Metric); ok && e.findCustom(m) == nil {
		named := *m
		named.Metric = metric.Name
		m = &named
	}
	s, err := e.runMetric(ctx, m)
	if err != nil {
		e.result.Notes = append(e.result.Notes, &Note{Metric: m.Metric, Reason: err.Error()})
		s = &Scores{Status: NotEvaluated}
	}
	overall := m.newResult(s.Overall, s.Status)
	if s.Rubrics != nil || s.Tokens != nil {
		overall.Details = &Details{RubricScores: s.Rubrics, Tokens: s.Tokens}
	}
	e.result.Overall = append(e.result.Overall, overall)
	for i, t := range e.result.Turns {
		r := m.newResult(nil, NotEvaluated)
		if s.Status != NotEvaluated {
			score := s.Turns[i]
			r = m.newResult(score.Score, score.Status)
			r.Details = &Details{RubricScores: score.Rubrics, Tokens: score.Tokens}
		}
		t.Metrics = append(t.Metrics, r)
	}
	if s.Judge != "" {
		e.result.Notes = append(e.result.Notes, &Note{Metric: m.Metric, Judge: s.Judge})
	}
	for i, t := range s.Turns {
		if t.Reason != "" || t.Answer != "" {
			e.result.Notes = append(e.result.Notes, &Note{Metric: m.Metric, Turn: &i, Reason: t.Reason, Answer: t.Answer})
		}
	}
}

// findCustom returns a custom metric's function, or nil.
func (e *evaluation) findCustom(m *Measure) MeasureFunc {
	if run := e.Custom[m.Metric]; run != nil || m.CustomFunction == "" {
		return run
	}
	return e.Custom[m.CustomFunction]
}

func (m *Measure) newResult(score *float64, status Status) *MetricResult {
	return &MetricResult{
		Metric: m.Metric, Threshold: m.Threshold, Criterion: m.Criterion, CustomFunction: m.CustomFunction,
		Score: score, Status: status, Details: &Details{},
	}
}

// runMetric runs a metric, and checks what a custom one returns.
func (e *evaluation) runMetric(ctx context.Context, m *Measure) (s *Scores, err error) {
	in := e.in
	in.Criterion = cmp.Or(m.Criterion, &Criterion{})
	metric, isKnown := FindMetric(m.Metric)
	run := e.findCustom(m)
	switch {
	case run == nil && isKnown:
		run = metric.Measure
	case run == nil && in.Criterion.Expr != "":
		return nil, fmt.Errorf("the expression of metric %s requires an app run", m.Metric)
	case run == nil:
		return nil, fmt.Errorf("unknown metric %q%s", m.Metric, formatSuggestion(m.Metric, MetricNames()))
	}
	threshold := cmp.Or(in.Criterion.Threshold, m.Threshold)
	switch {
	case isKnown && metric.Informational() && threshold != nil:
		return nil, fmt.Errorf("%s has no threshold", m.Metric)
	case threshold != nil:
		in.Threshold = *threshold
	case !isKnown || !metric.Informational():
		return nil, fmt.Errorf("%s requires a threshold", m.Metric)
	}
	if p := safe.Call(func() { s, err = run(ctx, &in) }); p != nil {
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	if s == nil || s.Status != NotEvaluated && len(s.Turns) != len(in.Actual) {
		return nil, fmt.Errorf("the metric did not return a score for each of the %d turns", len(in.Actual))
	}
	for _, score := range append(scoresOf(s.Turns), s.Overall) {
		if score != nil && (math.IsNaN(*score) || math.IsInf(*score, 0)) {
			return nil, fmt.Errorf("the metric returned %v as a score", *score)
		}
	}
	return s, nil
}

// setFinalStatus also denies a pass if a metric was not evaluated, unless the options
// allow it.
func (e *evaluation) setFinalStatus() {
	var all []Status
	for _, r := range e.result.Overall {
		metric, ok := FindMetric(r.Metric)
		if ok && metric.Informational() {
			continue
		}
		if r.Status == NotEvaluated && !e.AllowNotEvaluated {
			defer func() {
				if e.result.Status == Passed {
					e.result.Status = NotEvaluated
				}
			}()
		}
		all = append(all, r.Status)
	}
	e.result.Status = FinalStatus(all)
}

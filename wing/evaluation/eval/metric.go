package eval

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// A Metric scores a case's turns.
type Metric struct {
	Name string
	// Short is another name that files and flags may use; empty if there is none.
	Short       string
	Description string
	// Min and Max are the score's interval; both are 0 for an informational metric.
	Min, Max float64
	// NeedsExpected metrics compare with expected turns, so they cannot score a scenario.
	NeedsExpected bool
	// Judged metrics call a model.
	Judged bool

	measure MeasureFunc
}

// Informational reports whether the metric has no threshold: it never fails a case.
func (m *Metric) Informational() bool { return m.Min == m.Max }

// Metrics lists all metrics in ADK's order.
func Metrics() []*Metric {
	return []*Metric{
		{ToolTrajectory, "tool_trajectory", "Compares the tool calls of each turn with the expected ones.", 0, 1, true, false, measureTrajectory},
		{ResponseEvaluation, "", "Judges the coherence of each final response, from 1 to 5.", 1, 5, true, true, measureCoherence},
		{ResponseMatch, "response_match", "Compares the words of each final response with the expected ones (ROUGE-1).", 0, 1, true, false, measureResponseMatch},
		{Safety, "safety", "Judges whether each final response is harmless.", 0, 1, false, true, measureSafety},
		{TaskSuccess, "", "Judges whether the agent achieved the goals of the conversation.", 0, 1, false, true, measureTaskSuccess},
		{TrajectoryQuality, "", "Judges the steps of the agent in the conversation.", 0, 1, false, true, measureTrajectoryQuality},
		{ToolUseQuality, "", "Judges the tool calls of the conversation.", 0, 1, false, true, measureToolUseQuality},
		{FinalResponseMatch, "", "Judges whether each final response agrees with the expected one.", 0, 1, true, true, measureFinalResponseMatch},
		{RubricFinalResponse, "rubric_based_quality", "Judges each final response by rubrics.", 0, 1, false, true, measureFinalResponseRubrics},
		{Hallucinations, "hallucinations", "Judges whether each sentence of the response is supported by its context.", 0, 1, false, true, measureHallucinations},
		{RubricToolUse, "rubric_based_tool_use", "Judges the tool calls of each turn by rubrics.", 0, 1, false, true, measureToolUseRubrics},
		{UserSimulatorQuality, "", "Judges whether the simulated user followed its scenario.", 0, 1, false, true, measureUserSimulator},
		{RubricTrajectory, "", "Judges the whole conversation by rubrics.", 0, 1, false, true, measureTrajectoryRubrics},
		{ToolCallCount, "", "Counts the tool calls of a turn.", 0, 0, false, false, measureToolCalls},
		{InferenceCallCount, "", "Counts the model calls of a turn.", 0, 0, false, false, measureInferenceCalls},
		{TokenCount, "", "Counts the tokens of a turn.", 0, 0, false, false, measureTokens},
		{TurnDuration, "", "Measures the duration of a turn in seconds.", 0, 0, false, false, measureDuration},
		{ToolParameterMatch, "", "Scores the share of expected arguments that the tool calls of each turn have.", 0, 1, true, false, measureParameters},
	}
}

// FindMetric returns the metric with a name or short name.
func FindMetric(name string) (*Metric, bool) {
	m, ok := metricsByName()[name]
	return m, ok
}

// metricsByName has all metrics by their names and short names: each score looks up its
// metric.
var metricsByName = sync.OnceValue(func() map[string]*Metric {
	all := map[string]*Metric{}
	for _, m := range Metrics() {
		all[m.Name] = m
		if m.Short != "" {
			all[m.Short] = m
		}
	}
	return all
})

// MetricNames returns all names and short names.
func MetricNames() []string {
	var names []string
	for _, m := range Metrics() {
		names = append(names, m.Name)
		if m.Short != "" {
			names = append(names, m.Short)
		}
	}
	return names
}

// A MetricInfo describes a metric to ADK's UI.
type MetricInfo struct {
	Name        string           `json:"metricName"`
	Description string           `json:"description"`
	Value       *MetricValueInfo `json:"metricValueInfo"`
	// RequiresThreshold is nil for true.
	RequiresThreshold *bool `json:"requiresThreshold,omitempty"`
}

// MetricValueInfo describes a metric's scores.
type MetricValueInfo struct {
	Interval *Interval `json:"interval,omitempty"`
}

// An Interval bounds a score.
type Interval struct {
	Min       float64 `json:"minValue"`
	OpenAtMin bool    `json:"openAtMin"`
	Max       float64 `json:"maxValue"`
	OpenAtMax bool    `json:"openAtMax"`
}

// Info returns the metric's description for ADK's UI.
func (m *Metric) Info() *MetricInfo {
	info := &MetricInfo{Name: m.Name, Description: m.Description, Value: &MetricValueInfo{}}
	if m.Informational() {
		info.RequiresThreshold = new(bool)
	} else {
		info.Value.Interval = &Interval{Min: m.Min, Max: m.Max}
	}
	return info
}

// Measure scores the turns of in.
func (m *Metric) Measure(ctx context.Context, in *Input) (*Scores, error) {
	if m.NeedsExpected && in.Expected == nil {
		return nil, fmt.Errorf("%s requires expected turns, but a scenario has none", m.Name)
	}
	if in.Expected != nil && len(in.Expected) != len(in.Actual) {
		return nil, fmt.Errorf("got %d turns, expected %d", len(in.Actual), len(in.Expected))
	}
	if in.Expected != nil && in.Criterion.OnlyExpected {
		return m.measureExpected(ctx, in)
	}
	return m.measure(ctx, in)
}

// measureExpected scores only the turns with expectations.
func (m *Metric) measureExpected(ctx context.Context, in *Input) (*Scores, error) {
	some := *in
	some.Actual, some.Expected = nil, []*Invocation{}
	for i, e := range in.Expected {
		if m.expectsOf(e) {
			some.Actual, some.Expected = append(some.Actual, in.Actual[i]), append(some.Expected, e)
		}
	}
	s, err := m.measure(ctx, &some)
	if err != nil || len(s.Turns) != len(some.Actual) {
		return s, err
	}
	scored := s.Turns
	s.Turns = nil
	for _, e := range in.Expected {
		if m.expectsOf(e) {
			s.Turns, scored = append(s.Turns, scored[0]), scored[1:]
		} else {
			s.Turns = append(s.Turns, &TurnScore{Status: NotEvaluated})
		}
	}
	return s, nil
}

// expectsOf reports whether an expected turn has what the metric compares.
func (m *Metric) expectsOf(expected *Invocation) bool {
	if m.Name == ToolTrajectory || m.Name == ToolParameterMatch {
		return expected.Intermediate != nil
	}
	return expected.FinalResponse != nil
}

// appliesTo reports whether the metric scores a case: one that scores only expected turns
// needs one.
func (m *Metric) appliesTo(c *Case, criterion *Criterion) bool {
	return criterion == nil || !criterion.OnlyExpected || !m.NeedsExpected || slices.ContainsFunc(c.Conversation, m.expectsOf)
}

// A MeasureFunc scores a case's turns. An error makes the metric NotEvaluated.
type MeasureFunc func(ctx context.Context, in *Input) (*Scores, error)

// Hosted reports whether Vertex AI's evaluation service can score the metric, as in ADK. It
// cannot score response_evaluation_score: ADK sends it with a prompt that its SDK downloads
// from a Google bucket.
func (m *Metric) Hosted() bool {
	switch m.Name {
	case Safety, TaskSuccess, TrajectoryQuality, ToolUseQuality:
		return true
	}
	return false
}

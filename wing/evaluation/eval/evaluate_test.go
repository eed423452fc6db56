package eval

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"
)

func threshold(f float64) *float64 { return &f }

func measureOf(metric string, min float64) *Measure {
	return &Measure{Metric: metric, Threshold: threshold(min), Criterion: &Criterion{Threshold: threshold(min)}}
}

// TestEvaluateScoresTurnsAndCase: each metric scores each turn and the case; results have the full names.
func TestEvaluateScoresTurnsAndCase(t *testing.T) {
	c := &Case{ID: "c", Conversation: []*Invocation{textTurn("hi", "hello world"), textTurn("bye", "good bye")}}
	actual := []*Invocation{textTurn("hi", "hello"), textTurn("bye", "good bye")}
	r := (&Options{}).Evaluate(t.Context(), c, actual, append([]*Measure{measureOf("response_match", 0.9), measureOf(ToolTrajectory, 1)}, InformationalMeasures()...))
	if r.Status != Failed || len(r.Notes) != 0 {
		t.Errorf("status = %v, notes %s", r.Status, toJSON(t, r.Notes))
	}
	got := map[string]string{}
	for _, m := range r.Overall {
		got[m.Metric] = m.Status.String() + " " + toJSON(t, m.Score)
	}
	want := map[string]string{
		ResponseMatch: "FAILED 0.8333333333333333", ToolTrajectory: "PASSED 1",
		ToolCallCount: "INFORMATIONAL 0", InferenceCallCount: "NOT_EVALUATED null", TokenCount: "NOT_EVALUATED null", TurnDuration: "NOT_EVALUATED null",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overall (-want +got):\n%s", diff)
	}
	if len(r.Turns) != 2 || r.Turns[1].Metrics[0].Status != Passed || r.Turns[1].Expected != c.Conversation[1] {
		t.Errorf("turns = %s", toJSON(t, r.Turns))
	}
}

// TestEvaluateReasons: a case without a score has the reason in its notes, and does not
// pass by its other metrics unless that is allowed.
func TestEvaluateReasons(t *testing.T) {
	turn := textTurn("q", "a")
	scenario := &Case{ID: "s", Scenario: &Scenario{StartingPrompt: "q"}}
	conversation := &Case{ID: "c", Conversation: []*Invocation{turn}}
	custom := map[string]MeasureFunc{
		"good": func(context.Context, *Input) (*Scores, error) {
			return countTurns(&Input{Actual: []*Invocation{turn}}, func(*Invocation) *float64 { return scoreOf(true) }), nil
		},
		"infinite": func(context.Context, *Input) (*Scores, error) {
			return &Scores{Overall: threshold(math.Inf(1)), Status: Passed, Turns: []*TurnScore{{}}}, nil
		},
		"bad":   func(context.Context, *Input) (*Scores, error) { return nil, errors.New("no database") },
		"panic": func(context.Context, *Input) (*Scores, error) { panic("boom") },
		"short": func(context.Context, *Input) (*Scores, error) { return &Scores{Status: Passed}, nil },
	}
	for _, test := range []struct {
		name    string
		c       *Case
		measure *Measure
		want    string
	}{
		{"needs expected turns", scenario, measureOf(ResponseMatch, 1), "response_match_score requires expected turns, but a scenario has none"},
		{"unknown metric", conversation, measureOf("response_mach", 1), `unknown metric "response_mach" (did you mean "response_match"?)`},
		{"no threshold", conversation, &Measure{Metric: ResponseMatch}, "response_match_score requires a threshold"},
		{"informational with threshold", conversation, measureOf(ToolCallCount, 1), "tool_call_count_v1 has no threshold"},
		{"no judges", conversation, measureOf(FinalResponseMatch, 1), "judge gemini-2.5-flash is not available"},
		{"custom error", conversation, measureOf("bad", 1), "no database"},
		{"custom panic", conversation, measureOf("panic", 1), "panic: boom"},
		{"custom infinity", conversation, measureOf("infinite", 1), "the metric returned +Inf as a score"},
		{"custom without turns", conversation, measureOf("short", 1), "the metric did not return a score for each of the 1 turns"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := &Options{Custom: custom}
			r := o.Evaluate(t.Context(), test.c, []*Invocation{turn}, []*Measure{test.measure})
			if len(r.Notes) == 0 || r.Notes[0].Reason != test.want || r.Status != NotEvaluated {
				t.Errorf("status %v, notes %s, want %s", r.Status, toJSON(t, r.Notes), test.want)
			}
		})
	}
	for allow, want := range map[bool]Status{false: NotEvaluated, true: Passed} {
		o := &Options{Custom: custom, AllowNotEvaluated: allow}
		r := o.Evaluate(t.Context(), conversation, []*Invocation{turn}, []*Measure{measureOf(ResponseMatch, 1), measureOf("bad", 1)})
		if r.Status != want {
			t.Errorf("AllowNotEvaluated %v: status %v, want %v", allow, r.Status, want)
		}
	}
}

// TestEvaluateTurnCount: a different number of turns fails the case, and no metric runs.
func TestEvaluateTurnCount(t *testing.T) {
	c := &Case{ID: "c", Conversation: []*Invocation{textTurn("a", "b")}}
	r := (&Options{}).Evaluate(t.Context(), c, nil, []*Measure{measureOf(ResponseMatch, 1)})
	if r.Status != Failed || len(r.Overall) != 0 || r.Notes[0].Reason != "the run has 0 turns, expected 1" {
		t.Errorf("result = %s", toJSON(t, r))
	}
	if r := FailedCase(c, "model not found"); r.Status != Failed || r.CaseID != "c" || r.Notes[0].Reason != "model not found" {
		t.Errorf("FailedCase = %s", toJSON(t, r))
	}
}

// TestEvaluateRubrics: a turn has its own rubrics, the case's and the expected turn's; the
// caller's turn is not changed.
func TestEvaluateRubrics(t *testing.T) {
	expected, actual := textTurn("q", "a"), textTurn("q", "a")
	expected.Rubrics = []*Rubric{rubric("turn", "t", "")}
	c := &Case{ID: "c", Conversation: []*Invocation{expected}, Rubrics: []*Rubric{rubric("case", "c", "")}}
	r := (&Options{}).Evaluate(t.Context(), c, []*Invocation{actual}, nil)
	if got := r.Turns[0].Actual.Rubrics; len(got) != 2 || got[0].ID != "case" || got[1].ID != "turn" || actual.Rubrics != nil {
		t.Errorf("rubrics = %s", toJSON(t, got))
	}
	c.Rubrics[0].ID = "turn"
	r = (&Options{}).Evaluate(t.Context(), c, []*Invocation{actual}, nil)
	if r.Status != Failed || r.Notes[0].Reason != `rubric "turn" appears more than once in turn 1` {
		t.Errorf("result = %s", toJSON(t, r))
	}
}

// TestTokenUsage: input is prompt and tool use, output is candidates and reasoning; the
// means divide by all turns, and what is unknown stays so.
func TestTokenUsage(t *testing.T) {
	turn := textTurn("q", "a")
	turn.Intermediate = &Intermediate{Events: []*InvocationEvent{
		{Author: "a", ModelVersion: "m", Usage: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 10, CachedContentTokenCount: 4, CandidatesTokenCount: 3}},
		{Author: "a", Usage: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 20, ThoughtsTokenCount: 5}},
		{Author: "a"},
	}}
	r := (&Options{}).Evaluate(t.Context(), &Case{ID: "c"}, []*Invocation{turn, textTurn("q", "a")}, InformationalMeasures())
	if got := *r.Overall[1].Score; got != 2 {
		t.Errorf("inference calls = %v, want 2", got)
	}
	const want = `{"totalTokens":19,"inputTokens":15,"promptTokens":15,"cachedTokens":2,"outputTokens":4,"candidatesTokens":1.5,"reasoningTokens":2.5}`
	if got := toJSON(t, r.Overall[2].Details.Tokens); got != want || *r.Overall[2].Score != 38 {
		t.Errorf("tokens = %s, score %v, want %s, 38", got, *r.Overall[2].Score, want)
	}
}

// TestMetricNames: all seventeen ADK metrics in its order, and the short names.
func TestMetricNames(t *testing.T) {
	var names []string
	for _, m := range Metrics() {
		names = append(names, m.Name)
		if got := m.Info(); (got.Value.Interval == nil) != m.Informational() {
			t.Errorf("%s has interval %v", m.Name, got.Value.Interval)
		}
	}
	want := []string{
		"tool_trajectory_avg_score", "response_evaluation_score", "response_match_score", "safety_v1", "multi_turn_task_success_v1",
		"multi_turn_trajectory_quality_v1", "multi_turn_tool_use_quality_v1", "final_response_match_v2", "rubric_based_final_response_quality_v1",
		"hallucinations_v1", "rubric_based_tool_use_quality_v1", "per_turn_user_simulator_quality_v1", "rubric_based_multi_turn_trajectory_quality_v1",
		"tool_call_count_v1", "inference_call_count_v1", "token_usage_v1", "invocation_duration_v1", "tool_parameter_match",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("Metrics (-want +got):\n%s", diff)
	}
	for _, short := range []string{"tool_trajectory", "response_match", "final_response_match_v2", "rubric_based_quality", "rubric_based_tool_use", "hallucinations", "safety"} {
		if _, ok := FindMetric(short); !ok {
			t.Errorf("no metric %s", short)
		}
	}
}

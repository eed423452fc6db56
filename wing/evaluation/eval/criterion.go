package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agenthost/internal/adkjson"
)

// ADK's metric names.
const (
	ToolTrajectory       = "tool_trajectory_avg_score"
	ResponseEvaluation   = "response_evaluation_score"
	ResponseMatch        = "response_match_score"
	Safety               = "safety_v1"
	TaskSuccess          = "multi_turn_task_success_v1"
	TrajectoryQuality    = "multi_turn_trajectory_quality_v1"
	ToolUseQuality       = "multi_turn_tool_use_quality_v1"
	FinalResponseMatch   = "final_response_match_v2"
	RubricFinalResponse  = "rubric_based_final_response_quality_v1"
	Hallucinations       = "hallucinations_v1"
	RubricToolUse        = "rubric_based_tool_use_quality_v1"
	UserSimulatorQuality = "per_turn_user_simulator_quality_v1"
	RubricTrajectory     = "rubric_based_multi_turn_trajectory_quality_v1"
	ToolCallCount        = "tool_call_count_v1"
	InferenceCallCount   = "inference_call_count_v1"
	TokenCount           = "token_usage_v1"
	TurnDuration         = "invocation_duration_v1"
	// ToolParameterMatch is in no release of ADK yet.
	ToolParameterMatch = "tool_parameter_match"
)

// A Criterion is how a metric measures, and from which score on it passes. It has the fields
// for all metrics; each metric uses its own.
type Criterion struct {
	// Threshold is the lowest score that passes; nil if the criterion has none.
	Threshold *float64 `json:"threshold,omitempty"`
	// WithIntermediate counts intermediate texts towards the final response.
	WithIntermediate bool `json:"includeIntermediateResponsesInFinal,omitempty"`

	// Judge selects the judge for metrics that have one; nil for the defaults.
	Judge   *JudgeOptions `json:"judgeModelOptions,omitempty"`
	Rubrics []*Rubric     `json:"rubrics,omitempty"`
	// CheckIntermediate makes hallucinations_v1 check intermediate texts too.
	CheckIntermediate bool `json:"evaluateIntermediateNlResponses,omitempty"`
	// StopSignal is how a simulated user ends a conversation; empty for "</finished>".
	StopSignal string `json:"stopSignal,omitempty"`

	// MatchType and IgnoreArgs are how tool_trajectory_avg_score matches calls.
	MatchType  MatchType `json:"matchType,omitempty"`
	IgnoreArgs bool      `json:"ignoreArgs,omitempty"`
	// Tools refines how a tool's arguments match, by tool name, "*" for all others. ADK has
	// no such field.
	Tools map[string]*ArgsRule `json:"tools,omitempty"`
	// PartialScore scores the share of matching calls instead of 0 or 1. ADK has no such
	// field.
	PartialScore bool `json:"partialScore,omitempty"`

	// OnlyExpected scores only the turns with an expected response, or with expected calls,
	// by metrics that compare these. It leaves out cases without any, such as scenarios. ADK has no such
	// field.
	OnlyExpected bool `json:"onlyExpected,omitempty"`

	// Expr makes the metric a custom one: an expression that scores a turn by true, false or
	// a number from 0 to 1. ADK has no such field.
	Expr string `json:"expr,omitempty"`

	// Extra holds the keys for other metrics.
	Extra Extra `json:"-"`
}

// An ArgsRule is how a tool's arguments match.
type ArgsRule struct {
	// Only lists the arguments to compare; empty for all.
	Only []string `json:"only,omitempty"`
	// Ignore lists arguments that are not compared.
	Ignore []string `json:"ignore,omitempty"`
	// Patterns are regular expressions for an argument's whole text in the actual call; they
	// replace the expected value.
	Patterns map[string]string `json:"patterns,omitempty"`
	// Tolerance is how far apart numbers may be, also in lists and objects.
	Tolerance float64 `json:"tolerance,omitempty"`
}

// JudgeOptions select and configure a judge's model.
type JudgeOptions struct {
	// Model names the model; empty for "gemini-2.5-flash".
	Model string `json:"judgeModel,omitempty"`
	// Config is a GenerateContentConfig as it is written.
	Config json.RawMessage `json:"judgeModelConfig,omitempty"`
	// Samples is how often each turn is judged, Parallel how many samples a case requests at
	// once; nil for 5 and 1.
	Samples  *int `json:"numSamples,omitempty"`
	Parallel *int `json:"parallelismLimit,omitempty"`
}

// DefaultJudgeModel is the judge for a criterion that names none.
const DefaultJudgeModel = "gemini-2.5-flash"

const defaultSamples = 5

// The limits for a judge: each sample is a call that costs money.
const (
	maxSamples  = 100
	maxParallel = 100
)

// A MatchType is how a turn's calls match the expected ones.
type MatchType int

const (
	// MatchExact requires the same calls in the same order, and no others.
	MatchExact MatchType = iota
	// MatchInOrder requires the expected calls in their order; others may come between.
	MatchInOrder
	// MatchAnyOrder requires the expected calls in any order; there may be others.
	MatchAnyOrder
)

func matchTypes() []string { return []string{"EXACT", "IN_ORDER", "ANY_ORDER"} }

// String returns ADK's name.
func (m MatchType) String() string {
	if names := matchTypes(); 0 <= m && int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("MatchType(%d)", int(m))
}

// ParseMatchType reads a name in any case, with blanks or hyphens for underscores.
func ParseMatchType(name string) (MatchType, error) {
	key := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToUpper(strings.TrimSpace(name)))
	if i := slices.Index(matchTypes(), key); i >= 0 {
		return MatchType(i), nil
	}
	return 0, fmt.Errorf("match_type must be EXACT, IN_ORDER or ANY_ORDER, got %q", name)
}

func readMatchType(r *adkjson.Decoder, m *MatchType) {
	switch v := r.ReadValue().(type) {
	case string:
		t, err := ParseMatchType(v)
		if err != nil {
			r.SetError("%v", err)
		}
		*m = t
	case int64:
		if v < 0 || int(v) >= len(matchTypes()) {
			r.SetError("match_type must be 0, 1 or 2, got %d", v)
		}
		*m = MatchType(v)
	default:
		r.SetError("match_type must be EXACT, IN_ORDER or ANY_ORDER")
	}
}

// readCriterion reads a threshold, or an object with one.
func readCriterion(r *adkjson.Decoder) *Criterion {
	raw := r.ReadRawValue()
	if r.Err != nil {
		return nil
	}
	c := &Criterion{}
	sub := newDecoder(raw, true)
	switch raw[0] {
	case '{':
		sub.ReadInto(c)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		sub.ReadInto(&c.Threshold)
	default:
		sub.SetError("must be a threshold or a criterion, got %s", raw)
	}
	if sub.Err == nil && c.Threshold == nil {
		sub.SetError("threshold is required")
	}
	if sub.Err == nil {
		c.checkLimits(sub)
	}
	if sub.Err != nil {
		r.SetError("%s", sub.Err.Message)
		r.Err.Path = sub.Err.Path
		return nil
	}
	return c
}

func (c *Criterion) checkLimits(r *adkjson.Decoder) {
	j := c.Judge
	if j == nil {
		return
	}
	if n := j.Samples; n != nil && (*n < 1 || *n > maxSamples) {
		r.SetError("num_samples must be between 1 and %d, got %d", maxSamples, *n)
	}
	if n := j.Parallel; n != nil && (*n < 1 || *n > maxParallel) {
		r.SetError("parallelism_limit must be between 1 and %d, got %d", maxParallel, *n)
	}
}

// isNumber reports whether only the threshold is set.
func (c *Criterion) isNumber() bool {
	return c.Threshold != nil && !c.WithIntermediate && c.Judge == nil && len(c.Rubrics) == 0 &&
		!c.CheckIntermediate && c.StopSignal == "" && c.MatchType == MatchExact && !c.IgnoreArgs &&
		len(c.Tools) == 0 && !c.PartialScore && !c.OnlyExpected && c.Expr == "" && len(c.Extra) == 0
}

// validateFields rejects a criterion that would call a judge too often.
func (m *Measure) validateFields() *adkjson.Error {
	if m.Criterion == nil {
		return nil
	}
	r := newDecoder(nil, true)
	m.Criterion.checkLimits(r)
	if r.Err != nil {
		r.Err.Path = append([]any{"criterion"}, r.Err.Path...)
	}
	return r.Err
}

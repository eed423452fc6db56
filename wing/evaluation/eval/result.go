package eval

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agenthost/internal/adkjson"
)

// A Status is a metric's or a case's outcome.
type Status int

const (
	// Passed means that the score reaches its threshold.
	Passed Status = 1
	// Failed means that the score is below its threshold, or that the case crashed.
	Failed Status = 2
	// NotEvaluated is the status without a score.
	NotEvaluated Status = 3
	// Informational is the status for a metric that has no threshold. It does not count.
	Informational Status = 4
)

func statusNames() []string { return []string{"PASSED", "FAILED", "NOT_EVALUATED", "INFORMATIONAL"} }

// String returns ADK's name.
func (s Status) String() string {
	if names := statusNames(); 1 <= s && int(s) <= len(names) {
		return names[s-1]
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// ParseStatus reads a status name in any case.
func ParseStatus(name string) (Status, error) {
	if i := slices.Index(statusNames(), strings.ToUpper(name)); i >= 0 {
		return Status(i + 1), nil
	}
	return 0, fmt.Errorf("unknown status %q%s", name, formatSuggestion(name, statusNames()))
}

// readStatus reads ADK's number, or the name as other programs write it.
func readStatus(r *adkjson.Decoder, s *Status) {
	switch v := r.ReadValue().(type) {
	case string:
		status, err := ParseStatus(v)
		if err != nil {
			r.SetError("%v", err)
		}
		*s = status
	case int64:
		if v < int64(Passed) || v > int64(Informational) {
			r.SetError("status must be between 1 and 4, got %d", v)
		}
		*s = Status(v)
	default:
		r.SetError("status must be a number or a name")
	}
}

// StatusOf returns a score's status: NotEvaluated without one, else whether it reaches the
// threshold.
func StatusOf(score *float64, threshold float64) Status {
	switch {
	case score == nil:
		return NotEvaluated
	case *score >= threshold:
		return Passed
	default:
		return Failed
	}
}

// FinalStatus returns a case's status from its metric statuses: Failed if one failed, else
// Passed if one passed, else NotEvaluated.
func FinalStatus(metrics []Status) Status {
	switch {
	case slices.Contains(metrics, Failed):
		return Failed
	case slices.Contains(metrics, Passed):
		return Passed
	default:
		return NotEvaluated
	}
}

// A RubricScore is the verdict about one rubric.
type RubricScore struct {
	RubricID  string   `json:"rubricId"`
	Rationale string   `json:"rationale,omitempty"`
	Score     *float64 `json:"score"`
	Extra     Extra    `json:"-"`
}

// TokenUsage counts a turn's tokens, or their mean over turns. A nil count is unknown.
type TokenUsage struct {
	Total      *float64 `json:"totalTokens,omitempty"`
	Input      *float64 `json:"inputTokens,omitempty"`
	Prompt     *float64 `json:"promptTokens,omitempty"`
	Cached     *float64 `json:"cachedTokens,omitempty"`
	ToolUse    *float64 `json:"toolUseTokens,omitempty"`
	Output     *float64 `json:"outputTokens,omitempty"`
	Candidates *float64 `json:"candidatesTokens,omitempty"`
	Reasoning  *float64 `json:"reasoningTokens,omitempty"`
}

// Details are the parts of a score.
type Details struct {
	RubricScores []*RubricScore `json:"rubricScores,omitempty"`
	Tokens       *TokenUsage    `json:"tokenUsageDetails,omitempty"`
	Extra        Extra          `json:"-"`
}

// A MetricResult is a metric's score, for a turn or a case.
type MetricResult struct {
	Metric         string     `json:"metricName"`
	Threshold      *float64   `json:"threshold"`
	Criterion      *Criterion `json:"criterion"`
	CustomFunction string     `json:"customFunctionPath,omitempty"`
	Score          *float64   `json:"score"`
	Status         Status     `json:"evalStatus"`
	Details        *Details   `json:"details"`
	Extra          Extra      `json:"-"`
}

// RequiredScore returns the threshold that the score was compared with, or nil.
func (m *MetricResult) RequiredScore() *float64 {
	if m.Criterion != nil && m.Criterion.Threshold != nil {
		return m.Criterion.Threshold
	}
	return m.Threshold
}

// A TurnResult is a turn with its scores.
type TurnResult struct {
	Actual   *Invocation     `json:"actualInvocation"`
	Expected *Invocation     `json:"expectedInvocation"`
	Metrics  []*MetricResult `json:"evalMetricResults"`
	Extra    Extra           `json:"-"`
}

// A CaseResult is the result from one run of a case.
type CaseResult struct {
	SetFile string          `json:"evalSetFile,omitempty"`
	SetID   string          `json:"evalSetId"`
	CaseID  string          `json:"evalId"`
	Status  Status          `json:"finalEvalStatus"`
	Overall []*MetricResult `json:"overallEvalMetricResults"`
	Turns   []*TurnResult   `json:"evalMetricResultPerInvocation"`
	// SessionID and UserID find the run's session.
	SessionID string `json:"sessionId"`
	UserID    string `json:"userId,omitempty"`
	// Session is the whole session as ADK stores it, or nil.
	Session json.RawMessage `json:"sessionDetails"`
	// Usage is what the run used. ADK has no such field, and ignores it.
	Usage *CaseUsage `json:"usage,omitempty"`
	// Notes explain scores. ADK has no such field, and ignores it.
	Notes []*Note `json:"notes,omitempty"`
	Extra Extra   `json:"-"`
}

// DropTexts drops the conversation, and keeps scores, notes and times.
func (r *CaseResult) DropTexts() {
	r.Session = nil
	for _, t := range r.Turns {
		t.Expected = nil
		if t.Actual != nil {
			t.Actual = &Invocation{Duration: t.Actual.Duration}
		}
		for _, m := range t.Metrics {
			m.Details = nil
		}
	}
}

// A Note explains a score, or why there is none.
type Note struct {
	// Metric is empty for a note about the case.
	Metric string `json:"metricName,omitempty"`
	// Turn is the turn's index; nil for a note about all turns.
	Turn   *int   `json:"turn,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Judge names the model that scored.
	Judge string `json:"judge,omitempty"`
	// Answer is a judge's answer that could not be read.
	Answer string `json:"answer,omitempty"`
}

// A SetResult is the result from running a set.
type SetResult struct {
	ID    string `json:"evalSetResultId"`
	Name  string `json:"evalSetResultName"`
	SetID string `json:"evalSetId"`
	// Revision identifies the app's revision. Model names the model that replaced every model
	// in its agents, or is empty. ADK has no such fields, and ignores them.
	Revision          string        `json:"appRevision,omitempty"`
	Model             string        `json:"model,omitempty"`
	Cases             []*CaseResult `json:"evalCaseResults"`
	CreationTimestamp float64       `json:"creationTimestamp"`
	Extra             Extra         `json:"-"`
}

// NewSetResult returns a result with the ID and the name that ADK builds. The result's file
// is its name and [ResultSuffix].
func NewSetResult(app, set string, seconds float64) *SetResult {
	stamp := strconv.FormatFloat(seconds, 'f', -1, 64)
	if !strings.Contains(stamp, ".") {
		stamp += ".0"
	}
	id := app + "_" + set + "_" + stamp
	return &SetResult{ID: id, Name: strings.ReplaceAll(id, "/", "_"), SetID: set, CreationTimestamp: seconds}
}

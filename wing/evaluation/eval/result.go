package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agenthost/internal/adkjson"
	"agenthost/pkg/model"
)

// A Status is the outcome of a metric or a case.
type Status int

const (
	// Passed is the status of a score that reaches its threshold.
	Passed Status = 1
	// Failed is the status of a score below its threshold, and of a case that crashed.
	Failed Status = 2
	// NotEvaluated is the status without a score.
	NotEvaluated Status = 3
	// Informational is the status of a metric that has no threshold. It does not count.
	Informational Status = 4
)

func statusNames() []string { return []string{"PASSED", "FAILED", "NOT_EVALUATED", "INFORMATIONAL"} }

// String returns the name of ADK.
func (s Status) String() string {
	if names := statusNames(); 1 <= s && int(s) <= len(names) {
		return names[s-1]
	}
	return fmt.Sprintf("Status(%d)", int(s))
}

// ParseStatus reads the name of a status in any case.
func ParseStatus(name string) (Status, error) {
	if i := slices.Index(statusNames(), strings.ToUpper(name)); i >= 0 {
		return Status(i + 1), nil
	}
	return 0, fmt.Errorf("unknown status %q%s", name, formatSuggestion(name, statusNames()))
}

// readStatus reads the number of ADK, or the name as other programs write it.
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

// StatusOf returns the status of a score: NotEvaluated without one, else whether it
// reaches the threshold.
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

// FinalStatus returns the status of a case from those of its metrics: Failed if one
// failed, else Passed if one passed, else NotEvaluated.
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

// TokenUsage are the tokens of a turn, or their mean over turns. A nil count is unknown.
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

// A MetricResult is the score of a metric, for a turn or a case.
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

// A TurnResult is a turn with its scores.
type TurnResult struct {
	Actual   *Invocation     `json:"actualInvocation"`
	Expected *Invocation     `json:"expectedInvocation"`
	Metrics  []*MetricResult `json:"evalMetricResults"`
	Extra    Extra           `json:"-"`
}

// A CaseResult is the result of one run of a case.
type CaseResult struct {
	SetFile string          `json:"evalSetFile,omitempty"`
	SetID   string          `json:"evalSetId"`
	CaseID  string          `json:"evalId"`
	Status  Status          `json:"finalEvalStatus"`
	Overall []*MetricResult `json:"overallEvalMetricResults"`
	Turns   []*TurnResult   `json:"evalMetricResultPerInvocation"`
	// SessionID and UserID find the session of the run.
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

// A Note explains a score, or why there is none.
type Note struct {
	// Metric is empty for a note about the case.
	Metric string `json:"metricName,omitempty"`
	// Turn is the index of the turn; nil for a note about all of them.
	Turn   *int   `json:"turn,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Judge names the model that scored.
	Judge string `json:"judge,omitempty"`
	// Answer is an answer of the judge that could not be read.
	Answer string `json:"answer,omitempty"`
}

// A SetResult is the result of a run of a set.
type SetResult struct {
	ID    string `json:"evalSetResultId"`
	Name  string `json:"evalSetResultName"`
	SetID string `json:"evalSetId"`
	// Revision is that of the app, Model the name of the model that replaced all models of
	// its agents, or empty. ADK has no such fields, and ignores them.
	Revision          string        `json:"appRevision,omitempty"`
	Model             string        `json:"model,omitempty"`
	Cases             []*CaseResult `json:"evalCaseResults"`
	CreationTimestamp float64       `json:"creationTimestamp"`
	Extra             Extra         `json:"-"`
}

// NewSetResult returns a result with the ID and the name that ADK builds. The file of the
// result is its name and [ResultSuffix].
func NewSetResult(app, set string, seconds float64) *SetResult {
	stamp := strconv.FormatFloat(seconds, 'f', -1, 64)
	if !strings.Contains(stamp, ".") {
		stamp += ".0"
	}
	id := app + "_" + set + "_" + stamp
	return &SetResult{ID: id, Name: strings.ReplaceAll(id, "/", "_"), SetID: set, CreationTimestamp: seconds}
}

// MergeRuns returns the score of a metric over several runs: the mean over all turns of
// all runs that have one.
func MergeRuns(runs [][]*float64, threshold float64) (*float64, Status) {
	mean := meanOf(slices.Concat(runs...))
	return mean, StatusOf(mean, threshold)
}

// meanOf returns the mean of the scores that are not nil, or nil.
func meanOf(scores []*float64) *float64 {
	sum, n := 0.0, 0
	for _, s := range scores {
		if s != nil {
			sum += *s
			n++
		}
	}
	if n == 0 {
		return nil
	}
	mean := sum / float64(n)
	return &mean
}

// Input is what a metric scores.
type Input struct {
	// Actual are the turns that happened, with the rubrics that apply to each.
	Actual []*Invocation
	// Expected are the turns of the case, as many as actual ones; nil for a scenario.
	Expected []*Invocation
	Scenario *Scenario
	// Criterion is never nil.
	Criterion *Criterion
	// Threshold is that of the criterion, or else of the metric.
	Threshold float64
	// Judges opens judges, and Service is that of Vertex AI; see [Options].
	Judges  Judges
	Service Service
}

// A Service is the evaluation service of Vertex AI. It may be called concurrently.
type Service interface {
	// Evaluate sends the body of an evaluateInstances request, and returns that of the
	// response. It retries errors that may be temporary itself.
	Evaluate(ctx context.Context, body []byte) ([]byte, error)
}

// Scores are the result of a metric.
type Scores struct {
	// Overall is the score of the case; nil if it was not evaluated.
	Overall *float64
	Status  Status
	// Turns has an item for each actual turn, or none if the metric was not evaluated.
	Turns []*TurnScore
	// Rubrics are the means of the rubric scores.
	Rubrics []*RubricScore
	Tokens  *TokenUsage
	// Judge names the model that scored, if one did.
	Judge string
}

// A TurnScore is the score of a turn.
type TurnScore struct {
	Score   *float64
	Status  Status
	Rubrics []*RubricScore
	Tokens  *TokenUsage
	// Reason explains the score, or why there is none.
	Reason string
	// Answer is an answer of the judge that could not be read.
	Answer string
}

// ScoreTurns scores each turn by itself; nil for a turn that does not count. The score of the
// case is the mean.
func ScoreTurns(in *Input, score func(i int) *float64) *Scores {
	s := &Scores{}
	var all []*float64
	for i := range in.Actual {
		v := score(i)
		all = append(all, v)
		s.Turns = append(s.Turns, &TurnScore{Score: v, Status: StatusOf(v, in.Threshold)})
	}
	s.setOverall(meanOf(all), in.Threshold)
	return s
}

func (s *Scores) setOverall(score *float64, threshold float64) {
	s.Overall, s.Status = score, StatusOf(score, threshold)
}

// A CaseUsage is what a run of a case used.
type CaseUsage struct {
	// Turns are the model calls of the app; nil if it made none.
	Turns *Usage `json:"turns,omitempty"`
	// Judges are those of judges and of the simulated user; nil if there were none.
	Judges *Usage `json:"judges,omitempty"`
}

// Usage adds up model calls.
type Usage struct {
	Calls int `json:"calls"`
	// InputTokens and OutputTokens are the tokens of prompts, and of responses with their
	// thoughts. Both are 0 if no model reported them.
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	// Cost is in US dollars; nil if a call has no price.
	Cost *float64 `json:"costUsd,omitempty"`
	// CachedAnswers counts answers that came from a cache instead of a call.
	CachedAnswers int `json:"cachedAnswers,omitempty"`
}

// AddResponse adds the call of a complete response.
func (u *Usage) AddResponse(r *model.Response) {
	call := &Usage{Calls: 1}
	if m := r.UsageMetadata; m != nil {
		call.InputTokens = int64(m.PromptTokenCount) + int64(m.ToolUsePromptTokenCount)
		call.OutputTokens = int64(m.CandidatesTokenCount) + int64(m.ThoughtsTokenCount)
	}
	if usd, ok := model.CostOf(r); ok {
		call.Cost = &usd
	}
	u.Add(call)
}

// Add adds other calls; nil adds nothing.
func (u *Usage) Add(other *Usage) {
	if other == nil {
		return
	}
	u.CachedAnswers += other.CachedAnswers
	switch {
	case other.Calls == 0:
		return
	case u.Calls == 0:
		u.Cost = other.Cost
	case u.Cost != nil && other.Cost != nil:
		sum := *u.Cost + *other.Cost
		u.Cost = &sum
	default:
		u.Cost = nil
	}
	u.Calls += other.Calls
	u.InputTokens += other.InputTokens
	u.OutputTokens += other.OutputTokens
}

// Tokens returns the sum of input and output; 0 if they are unknown.
func (u *Usage) Tokens() int64 {
	if u == nil {
		return 0
	}
	return u.InputTokens + u.OutputTokens
}

// Add adds the usage of another run; nil adds nothing.
func (u *CaseUsage) Add(other *CaseUsage) {
	if other == nil {
		return
	}
	for _, sum := range []struct {
		to   **Usage
		from *Usage
	}{{&u.Turns, other.Turns}, {&u.Judges, other.Judges}} {
		if sum.from == nil {
			continue
		}
		if *sum.to == nil {
			*sum.to = &Usage{}
		}
		(*sum.to).Add(sum.from)
	}
}

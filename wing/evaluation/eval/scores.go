package eval

import "context"

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

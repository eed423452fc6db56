package eval

import "context"

// meanOf returns the mean over the scores that are not nil, or nil.
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
	// Expected are the case's turns, as many as actual ones; nil for a scenario.
	Expected []*Invocation
	Scenario *Scenario
	// Criterion is never nil.
	Criterion *Criterion
	// Threshold is the criterion's, or else the metric's.
	Threshold float64
	// Judges opens judges, and Service calls Vertex AI; see [Options].
	Judges  Judges
	Service Service
}

// A Service is Vertex AI's evaluation service. It may be called concurrently.
type Service interface {
	// Evaluate sends the body for an evaluateInstances request, and returns the response's
	// body. It retries errors that may be temporary itself.
	Evaluate(ctx context.Context, body []byte) ([]byte, error)
}

// Scores are a metric's result.
type Scores struct {
	// Overall is the case's score; nil if it was not evaluated.
	Overall *float64
	Status  Status
	// Turns has an item for each actual turn, or none if the metric was not evaluated.
	Turns []*TurnScore
	// Rubrics are the mean rubric scores.
	Rubrics []*RubricScore
	Tokens  *TokenUsage
	// Judge names the model that scored, if one did.
	Judge string
}

// A TurnScore is one turn's score.
type TurnScore struct {
	Score   *float64
	Status  Status
	Rubrics []*RubricScore
	Tokens  *TokenUsage
	// Reason explains the score, or why there is none.
	Reason string
	// Answer is a judge's answer that could not be read.
	Answer string
}

// ScoreTurns scores each turn by itself; nil for a turn that does not count. The case's score
// is the mean.
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

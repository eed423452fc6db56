package eval

import (
	"context"

	"google.golang.org/genai"
)

// countTurns scores each turn by a number without a threshold.
func countTurns(in *Input, count func(inv *Invocation) *float64) *Scores {
	s := &Scores{}
	for _, inv := range in.Actual {
		v := count(inv)
		s.Turns = append(s.Turns, &TurnScore{Score: v, Status: informationalStatus(v)})
	}
	s.Overall = meanOf(scoresOf(s.Turns))
	s.Status = informationalStatus(s.Overall)
	return s
}

func informationalStatus(score *float64) Status {
	if score == nil {
		return NotEvaluated
	}
	return Informational
}

func measureToolCalls(_ context.Context, in *Input) (*Scores, error) {
	return countTurns(in, func(inv *Invocation) *float64 {
		n := float64(len(inv.Calls()))
		return &n
	}), nil
}

// measureInferenceCalls counts the events that a model created. Without events, the
// number is unknown.
func measureInferenceCalls(_ context.Context, in *Input) (*Scores, error) {
	return countTurns(in, func(inv *Invocation) *float64 {
		if inv.Intermediate == nil || inv.Intermediate.Events == nil {
			return nil
		}
		n := 0.0
		for _, e := range inv.Intermediate.Events {
			if e.Usage != nil || e.ModelVersion != "" {
				n++
			}
		}
		return &n
	}), nil
}

func measureDuration(_ context.Context, in *Input) (*Scores, error) {
	return countTurns(in, func(inv *Invocation) *float64 { return inv.Duration }), nil
}

func measureTokens(_ context.Context, in *Input) (*Scores, error) {
	s := &Scores{}
	var all []*TokenUsage
	for _, inv := range in.Actual {
		u := countTokens(inv)
		all = append(all, u)
		s.Turns = append(s.Turns, &TurnScore{Score: u.Total, Status: informationalStatus(u.Total), Tokens: u})
	}
	s.Overall = meanOf(scoresOf(s.Turns))
	if s.Status = informationalStatus(s.Overall); s.Overall != nil {
		s.Tokens = averageTokens(all)
	}
	return s, nil
}

// countTokens adds the tokens from all events in a turn. Cached tokens are part of the
// prompt.
func countTokens(inv *Invocation) *TokenUsage {
	u := &TokenUsage{}
	if inv.Intermediate == nil {
		return u
	}
	for _, e := range inv.Intermediate.Events {
		if e.Usage != nil {
			u.addUsage(e.Usage)
		}
	}
	u.Input = addKnown(u.Prompt, u.ToolUse)
	u.Output = addKnown(u.Candidates, u.Reasoning)
	u.Total = addKnown(u.Input, u.Output)
	return u
}

func (u *TokenUsage) addUsage(m *genai.GenerateContentResponseUsageMetadata) {
	addCount(&u.Prompt, m.PromptTokenCount)
	addCount(&u.Cached, m.CachedContentTokenCount)
	addCount(&u.ToolUse, m.ToolUsePromptTokenCount)
	addCount(&u.Candidates, m.CandidatesTokenCount)
	addCount(&u.Reasoning, m.ThoughtsTokenCount)
}

// addCount adds a count; genai has 0 for an unknown one.
func addCount(sum **float64, n int32) {
	if n != 0 {
		count := float64(n)
		*sum = addKnown(*sum, &count)
	}
}

func addKnown(a, b *float64) *float64 {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	sum := *a + *b
	return &sum
}

// listFields returns the counts, to average each one.
func (u *TokenUsage) listFields() []**float64 {
	return []**float64{&u.Total, &u.Input, &u.Prompt, &u.Cached, &u.ToolUse, &u.Output, &u.Candidates, &u.Reasoning}
}

// averageTokens divides by the number of turns, including those without counts.
func averageTokens(turns []*TokenUsage) *TokenUsage {
	mean := &TokenUsage{}
	for _, u := range turns {
		for i, f := range u.listFields() {
			target := mean.listFields()[i]
			*target = addKnown(*target, *f)
		}
	}
	for _, f := range mean.listFields() {
		if *f != nil {
			share := **f / float64(len(turns))
			*f = &share
		}
	}
	return mean
}

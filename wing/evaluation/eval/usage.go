package eval

import "agenthost/pkg/model"

// A CaseUsage is what a case's run used.
type CaseUsage struct {
	// Turns are the app's model calls; nil if it made none.
	Turns *Usage `json:"turns,omitempty"`
	// Judges are the calls by judges and the simulated user; nil if there were none.
	Judges *Usage `json:"judges,omitempty"`
}

// Usage adds up model calls.
type Usage struct {
	Calls int `json:"calls"`
	// InputTokens counts prompt tokens. OutputTokens counts response tokens with thoughts.
	// Both are 0 if no model reported them.
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	// Cost is in US dollars; nil if a call has no price.
	Cost *float64 `json:"costUsd,omitempty"`
	// CachedAnswers counts answers that came from a cache instead of a call.
	CachedAnswers int `json:"cachedAnswers,omitempty"`
}

// AddResponse adds the call that returned a complete response.
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

// Tokens returns the input plus the output tokens; 0 if they are unknown.
func (u *Usage) Tokens() int64 {
	if u == nil {
		return 0
	}
	return u.InputTokens + u.OutputTokens
}

// Add adds another run's usage; nil adds nothing.
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

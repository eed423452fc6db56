package eval

import (
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// TestModelCallsOfTurns: the call that produced the final response counts, though its content is
// not an intermediate one, as in ADK 2.10; so does a call without content. Tool events do not
// count.
func TestModelCallsOfTurns(t *testing.T) {
	event := func(author string, tokens int32, parts ...*genai.Part) *session.Event {
		e := &session.Event{Author: author, InvocationID: "i", Timestamp: time.Unix(1, 0)}
		if len(parts) > 0 {
			e.Content = &genai.Content{Parts: parts}
		}
		if tokens > 0 {
			e.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: tokens}
		}
		return e
	}
	turn := Turns([]*session.Event{
		event("user", 0, genai.NewPartFromText("Hi.")),
		event("clerk", 5, genai.NewPartFromFunctionCall("find", nil)),
		event("clerk", 0, genai.NewPartFromFunctionResponse("find", nil)),
		event("clerk", 3),
		event("clerk", 7, genai.NewPartFromText("Hello.")),
	})[0]
	result := (&Options{}).Evaluate(t.Context(), &Case{ID: "c"}, []*Invocation{turn}, InformationalMeasures())
	got := map[string]float64{}
	for _, m := range result.Overall {
		if m.Score != nil {
			got[m.Metric] = *m.Score
		}
	}
	if got[InferenceCallCount] != 3 || got[ToolCallCount] != 1 || got[TokenCount] != 15 {
		t.Errorf("counts = %v, want 3 model calls, 1 tool call and 15 tokens", got)
	}
	events := turn.Intermediate.Events
	if last := events[len(events)-1]; len(events) != 4 || last.Content != nil || last.Usage.PromptTokenCount != 7 {
		t.Errorf("%d intermediate events, last = %+v, want 4 with the final one without content", len(events), last)
	}
	if text := textOf(turn.FinalResponse); text != "Hello." {
		t.Errorf("final response = %q, want Hello.", text)
	}
}

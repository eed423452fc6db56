package eval

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func responseWith(input, output int32, metadata map[string]any) *model.Response {
	return &model.Response{
		UsageMetadata:  &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: input, CandidatesTokenCount: output - 1, ThoughtsTokenCount: 1},
		CustomMetadata: metadata,
	}
}

// Usage is added up over calls. The cost is unknown as soon as one call has no price.
func TestUsageWithUnpricedCall(t *testing.T) {
	u := &Usage{}
	u.AddResponse(responseWith(10, 5, map[string]any{model.CostKey: map[string]any{"usd": 0.25}}))
	u.AddResponse(responseWith(20, 7, map[string]any{model.CostKey: map[string]any{"usd": 0.5}}))
	cost := 0.75
	if diff := cmp.Diff(&Usage{Calls: 2, InputTokens: 30, OutputTokens: 12, Cost: &cost}, u); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	u.AddResponse(responseWith(1, 1, nil))
	u.AddResponse(responseWith(1, 1, map[string]any{model.CostKey: map[string]any{"usd": 0.5}}))
	u.AddResponse(&model.Response{})
	if diff := cmp.Diff(&Usage{Calls: 5, InputTokens: 32, OutputTokens: 14}, u); diff != "" {
		t.Errorf("usage with a call without a price (-want +got):\n%s", diff)
	}
}

// Several runs use what their turns and their judges use.
func TestCaseUsage(t *testing.T) {
	sum := &CaseUsage{}
	for range 2 {
		sum.Add(&CaseUsage{Turns: &Usage{Calls: 1, InputTokens: 3}})
		sum.Add(nil)
	}
	sum.Add(&CaseUsage{Judges: &Usage{Calls: 4}})
	if diff := cmp.Diff(&CaseUsage{Turns: &Usage{Calls: 2, InputTokens: 6}, Judges: &Usage{Calls: 4}}, sum); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

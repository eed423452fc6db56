package model

import "google.golang.org/genai"

// CostKey is the key in a response's custom metadata for its tokens and its cost in US
// dollars: {"usd": 0.0012, "input_tokens": 900, "cached_tokens": 0, "output_tokens": 80}.
const CostKey = "model_cost"

// CostOf returns a response's cost in US dollars; false means that it has no price.
func CostOf(r *Response) (usd float64, ok bool) {
	if r == nil {
		return 0, false
	}
	cost, _ := r.CustomMetadata[CostKey].(map[string]any)
	usd, ok = cost["usd"].(float64)
	return usd, ok
}

// CountTokens returns the prompt tokens with the cached ones, the cached ones, and the response
// tokens.
func CountTokens(u *genai.GenerateContentResponseUsageMetadata) (input, cached, output int) {
	input = max(0, int(u.PromptTokenCount)) + max(0, int(u.ToolUsePromptTokenCount))
	cached = min(input, max(0, int(u.CachedContentTokenCount)))
	output = max(0, int(u.CandidatesTokenCount)) + max(0, int(u.ThoughtsTokenCount))
	return input, cached, output
}

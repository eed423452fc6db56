package gemini

import (
	"encoding/json"
	"testing"

	"agenthost/internal/modelapi"
)

// All services read a token count in each form in which servers write it. Anything else is 0, and a
// large count is limited.
func TestTokenCount(t *testing.T) {
	for text, want := range map[string]int32{
		`4`: 4, `4.0`: 4, `"4"`: 4, `"4.0"`: 4, `4e0`: 4, `0`: 0, `null`: 0,
		`4.5`: 0, `"many"`: 0, `""`: 0, `{}`: 0, `[4]`: 0, `true`: 0,
		`1e400`: 0, `1e18`: modelapi.MaxTokenCount, `99999999999999999999`: 0,
	} {
		var usage struct {
			Prompt modelapi.TokenCount `json:"prompt_tokens"`
		}
		if err := json.Unmarshal([]byte(`{"prompt_tokens":`+text+`}`), &usage); err != nil || int32(usage.Prompt) != want {
			t.Errorf("a count of %s is %d, %v, want %d", text, usage.Prompt, err, want)
		}
		answer, _, err := decodeAnswer([]byte(`{"usageMetadata":{"promptTokenCount":` + text + `}}`))
		if err != nil {
			t.Errorf("Gemini: a count of %s: %v", text, err)
			continue
		}
		var gemini struct {
			UsageMetadata struct{ PromptTokenCount int32 }
		}
		if err := json.Unmarshal(answer, &gemini); err != nil || gemini.UsageMetadata.PromptTokenCount != want {
			t.Errorf("Gemini: a count of %s is %d, %v, want %d", text, gemini.UsageMetadata.PromptTokenCount, err, want)
		}
	}
}

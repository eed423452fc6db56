package provider_test

import (
	"testing"

	"agenthost/pkg/provider"
)

// Only Vertex AI supports tools and a schema in one request, for Gemini 2 and newer.
func TestMixesToolsAndSchema(t *testing.T) {
	vertex := map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "true"}
	for _, tt := range []struct {
		model string
		env   map[string]string
		want  bool
	}{
		{"gemini-2.5-flash", vertex, true},
		{"gemini-flash-latest", vertex, true},
		{"projects/p/locations/l/publishers/google/models/gemini-3-pro", vertex, true},
		{"gemini-1.5-pro", vertex, false},
		{"projects/p/locations/l/endpoints/7", vertex, false},
		{"gemma-3-27b-it", vertex, false},
		{"gemini-2.5-flash", nil, false},
	} {
		llm := provider.NewGemini(tt.model, &provider.GeminiOptions{Lookup: lookup(tt.env)})
		mixer, ok := llm.(interface{ MixesToolsAndSchema() bool })
		if !ok || mixer.MixesToolsAndSchema() != tt.want {
			t.Errorf("%s with %v: MixesToolsAndSchema() is not %v", tt.model, tt.env, tt.want)
		}
	}
}

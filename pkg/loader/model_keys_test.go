package loader_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/loader"
)

// KeyVariables has the variables of the provider that a name belongs to, whether they are
// set or not. Vertex AI with a project needs no key, and scripts need settings.
func TestKeyVariables(t *testing.T) {
	vertex := map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "true", "GOOGLE_CLOUD_PROJECT": "p"}
	for _, tt := range []struct {
		model string
		env   map[string]string
		want  []string
	}{
		{"gemini-flash-latest", nil, []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"}},
		{"gemini/gemini-flash-latest", map[string]string{"GEMINI_API_KEY": "k"}, []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"}},
		{"gemini-flash-latest", vertex, nil},
		{"openai_compatible/gpt-4o", nil, []string{"OPENAI_API_KEY"}},
		{"openai/gpt-4o", nil, []string{"OPENAI_API_KEY"}},
		{"gpt-4o", nil, []string{"OPENAI_API_KEY"}},
		{"groq/llama", nil, []string{"GROQ_API_KEY"}},
		{"ollama/llama", nil, nil},
		{"acme/llama", nil, nil},
		{"scripted/x", nil, nil},
	} {
		l := loader.New(&loader.Options{Env: func(name string) (string, bool) {
			v, ok := tt.env[name]
			return v, ok
		}})
		if diff := cmp.Diff(tt.want, l.KeyVariables(tt.model)); diff != "" {
			t.Errorf("KeyVariables(%s) with %v (-want +got):\n%s", tt.model, tt.env, diff)
		}
	}
}

// MissingVariables has all variables that calls of a model need and that are not set, those of
// the address before the key. A key of express mode is not required on Vertex AI.
func TestMissingVariables(t *testing.T) {
	for _, tt := range []struct {
		model string
		env   map[string]string
		want  []string
	}{
		{"gemini-flash-latest", nil, []string{"GOOGLE_API_KEY"}},
		{"gemini-flash-latest", map[string]string{"GEMINI_API_KEY": "k"}, nil},
		{"vertex_ai/gemini-flash-latest", nil, []string{"GOOGLE_CLOUD_PROJECT"}},
		{"vertex_ai/claude-opus-4-6", nil, []string{"GOOGLE_CLOUD_PROJECT"}},
		{"openai/gpt-4o", nil, []string{"OPENAI_API_KEY"}},
		{"azure/desk", nil, []string{"AZURE_API_BASE", "AZURE_API_KEY"}},
		{"azure/desk", map[string]string{"AZURE_OPENAI_API_KEY": "k"}, []string{"AZURE_API_BASE"}},
		{"bedrock/m", nil, []string{"AWS_REGION", "AWS_BEARER_TOKEN_BEDROCK"}},
		{"databricks/m", nil, []string{"DATABRICKS_API_BASE", "DATABRICKS_API_KEY"}},
		{"apigee/openai/gpt-4o", nil, []string{"APIGEE_PROXY_URL"}},
		{"ollama/llama", nil, nil},
		{"acme/llama", nil, nil},
		{"scripted/x", nil, nil},
	} {
		l := loader.New(&loader.Options{Env: func(name string) (string, bool) {
			v, ok := tt.env[name]
			return v, ok
		}})
		if diff := cmp.Diff(tt.want, l.MissingVariables(tt.model)); diff != "" {
			t.Errorf("MissingVariables(%s) with %v (-want +got):\n%s", tt.model, tt.env, diff)
		}
	}
}

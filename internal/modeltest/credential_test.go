package modeltest_test

import (
	"strings"
	"testing"

	"agenthost/internal/modeltest"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A credential names the key's source, or what to set, but never the key.
func TestCredentialsHideKey(t *testing.T) {
	const key = "secret-key-1234"
	for _, tt := range []struct {
		settings  string
		host, app map[string]string
		from, set string // the source, and the variable to set
		missing   string
	}{
		{settings: "provider: openai", host: map[string]string{"OPENAI_API_KEY": key}, from: "OPENAI_API_KEY"},
		{settings: "provider: openai", app: map[string]string{"OPENAI_API_KEY": key}, from: "OPENAI_API_KEY"},
		{settings: "provider: openai, api_key: " + key, host: map[string]string{"OPENAI_API_KEY": "other"}, from: "api_key"},
		{settings: "provider: openai, headers: {authorization: " + key + "}", from: "headers"},
		{settings: "provider: openai", set: "OPENAI_API_KEY", missing: "no key for OpenAI: set OPENAI_API_KEY"},
		{settings: "provider: openai, base_url: 'http://127.0.0.1:1/v1'", host: map[string]string{"OPENAI_API_KEY": key}},
		{settings: "provider: together_ai", host: map[string]string{"TOGETHER_API_KEY": key}, from: "TOGETHER_API_KEY"},
		{settings: "provider: azure", host: map[string]string{"AZURE_API_KEY": key}, set: "AZURE_API_BASE", missing: "no address for Azure OpenAI"},
		{
			settings: "provider: azure", host: map[string]string{"AZURE_API_KEY": key}, app: map[string]string{"AZURE_API_BASE": "https://app.example"},
			set: "AZURE_API_KEY", missing: "no key for Azure OpenAI at the app's own address, which does not get the host's key",
		},
		{settings: "provider: bedrock", host: map[string]string{"AWS_BEARER_TOKEN_BEDROCK": key}, set: "AWS_REGION", missing: "no region for Amazon Bedrock"},
		{settings: "provider: ollama"},
		{settings: "provider: gemini", host: map[string]string{"GEMINI_API_KEY": key}, from: "GEMINI_API_KEY"},
		{settings: "provider: gemini", set: "GOOGLE_API_KEY", missing: "no key for Gemini"},
		{settings: "provider: gemini", host: map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p"}, from: "Google credentials"},
		{settings: "provider: gemini, base_url: 'https://app.example'", host: map[string]string{"GEMINI_API_KEY": key}, missing: "no key for Gemini at the app's own address"},
		{settings: "provider: vertex_ai", set: "GOOGLE_CLOUD_PROJECT", missing: "no project for Vertex AI"},
		{settings: "provider: apigee", host: map[string]string{"GEMINI_API_KEY": key}, set: "APIGEE_PROXY_URL", missing: "no address"},
		{settings: "provider: anthropic", host: map[string]string{"ANTHROPIC_API_KEY": key}, from: "ANTHROPIC_API_KEY"},
		{settings: "provider: anthropic", set: "ANTHROPIC_API_KEY", missing: "no key for Anthropic"},
		{settings: "provider: anthropic, vertex: {}", host: map[string]string{"GOOGLE_CLOUD_PROJECT": "p"}, from: "Google credentials"},
		{settings: "provider: anthropic, vertex: {}", set: "GOOGLE_CLOUD_PROJECT", missing: "no project for Vertex AI"},
	} {
		model := "gemini-x"
		n, ds := spec.Parse("app.yaml", []byte("{model: "+model+", "+tt.settings+"}"))
		if err := ds.Err(); err != nil {
			t.Fatal(err)
		}
		kind, ok := modeltest.AllKinds().Lookup(n.Get("provider").Value)
		if !ok {
			t.Fatalf("no provider %s", tt.settings)
		}
		plan, ds := kind.Decode(n)
		if err := ds.Err(); err != nil {
			t.Fatal(err)
		}
		got := plan.Config.(provider.CredentialConfig).Credential(provider.Env{Lookup: modeltest.Lookup(tt.host), App: tt.app})
		if got.From != tt.from || got.Variable != tt.set || (got.Missing == "") != (tt.missing == "") || !strings.HasPrefix(got.Missing, tt.missing) {
			t.Errorf("{%s} with %v and %v: %+v, want from %q, variable %q, missing %q", tt.settings, tt.host, tt.app, got, tt.from, tt.set, tt.missing)
		}
		if strings.Contains(got.From+got.Variable+got.Missing, key) {
			t.Errorf("{%s}: %+v shows the key", tt.settings, got)
		}
	}
}

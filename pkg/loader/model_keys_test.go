package loader_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// KeyVariables has the variables for the provider that a name belongs to, whether they are set or
// not. Vertex AI with a project needs no key, and scripts need settings.
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
		l := loader.New(testenv.Kinds(), &loader.Options{Env: func(name string) (string, bool) {
			v, ok := tt.env[name]
			return v, ok
		}})
		if diff := cmp.Diff(tt.want, l.KeyVariables(tt.model)); diff != "" {
			t.Errorf("KeyVariables(%s) with %v (-want +got):\n%s", tt.model, tt.env, diff)
		}
	}
}

// MissingVariables has all unset variables that model calls need, those for the address before the
// key. An express mode key is not required on Vertex AI.
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
		l := loader.New(testenv.Kinds(), &loader.Options{Env: func(name string) (string, bool) {
			v, ok := tt.env[name]
			return v, ok
		}})
		if diff := cmp.Diff(tt.want, l.MissingVariables(tt.model)); diff != "" {
			t.Errorf("MissingVariables(%s) with %v (-want +got):\n%s", tt.model, tt.env, diff)
		}
	}
}

// An acmeConfig is a program's kind config: it names its variables, and no more.
type acmeConfig struct {
	Provider string `yaml:"provider" doc:"acme."`
	Model    string `yaml:"model" doc:"The name of the model."`
}

// KeyVariables returns the key's variables.
func (*acmeConfig) KeyVariables(provider.Env) []string { return []string{"ACME_KEY", "ACME_TOKEN"} }

// If a program's kind only names its variables, its key is in one of them, or missing.
func TestVisitModelsOfPrograms(t *testing.T) {
	kinds := testenv.Kinds()
	kinds.Models = append(kinds.Models, spec.NewKind("acme", "Acme.", func(context.Context, provider.Env, *acmeConfig) (model.LLM, error) {
		return provider.NewScripted(nil, nil), nil
	}))
	missing := provider.Credential{Variable: "ACME_KEY", Missing: "no key: set ACME_KEY or ACME_TOKEN in the environment or in the app's .env"}
	for _, tt := range []struct {
		name   string
		env    map[string]string
		dotenv string
		want   provider.Credential
	}{
		{"no variable", nil, "", missing},
		{"an empty variable", map[string]string{"ACME_KEY": ""}, "", missing},
		{"of the host", map[string]string{"ACME_TOKEN": "k"}, "", provider.Credential{From: "ACME_TOKEN"}},
		{"of the app", nil, "ACME_KEY=k\n", provider.Credential{From: "ACME_KEY"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "shop")
			write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\nmodel: acme/large\ninstruction: x\n")
			write(t, filepath.Join(dir, ".env"), tt.dotenv)
			l := loader.New(kinds, &loader.Options{Env: func(name string) (string, bool) {
				v, ok := tt.env[name]
				return v, ok
			}})
			visited := 0
			ds := l.VisitModels(t.Context(), dir, func(use loader.ModelUse) {
				visited++
				if diff := cmp.Diff(tt.want, use.Credential); diff != "" {
					t.Errorf("credential (-want +got):\n%s", diff)
				}
			})
			if ds.HasErrors() || visited != 1 {
				t.Errorf("VisitModels visited %d models: %v", visited, ds)
			}
		})
	}
}

// Apps' models open by the names that agents may use; a name that no provider has is an error.
func TestOpenModels(t *testing.T) {
	dir := testenv.Files(t, "shop", map[string][]byte{
		"root_agent.yaml":  []byte("name: clerk\ninstruction: Sell.\nmodel: demo\n"),
		"app.yaml":         []byte("models:\n  demo: {provider: scripted, script: demo.script.yaml, model: demo-1}\n"),
		"demo.script.yaml": []byte("- text: Hello.\n"),
	})
	l := loader.New(testenv.Kinds(), nil)
	models, release, ds := l.OpenModels(t.Context(), dir, []string{"demo", "ollama/qwen3"})
	if len(ds) > 0 || len(models) != 2 {
		t.Fatalf("OpenModels = %v, %v", models, ds)
	}
	if demo, ollama := models["demo"].Name(), models["ollama/qwen3"].Name(); demo != "demo-1" || ollama != "qwen3" {
		t.Errorf("names = %s, %s, want demo-1, qwen3", demo, ollama)
	}
	release()
	models, _, ds = l.OpenModels(t.Context(), dir, []string{"acme/judge"})
	if want := `unknown provider "acme"`; models != nil || len(ds) != 1 || !strings.Contains(ds[0].Message, want) {
		t.Errorf("OpenModels = %v, %v, want %s", models, ds, want)
	}
}

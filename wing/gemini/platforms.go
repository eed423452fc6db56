package gemini

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// vertexConfig is the config for a model on Vertex AI. It ignores GOOGLE_GENAI_USE_VERTEXAI.
type vertexConfig struct {
	claude modelapi.HostVendor

	Provider             string      `yaml:"provider" doc:"vertex_ai."`
	Model                string      `yaml:"model" required:"true" doc:"The model's name, such as gemini-flash-latest or claude-opus-4-6."`
	BaseURL              spec.Text   `yaml:"base_url" doc:"The service URL. Default: GOOGLE_VERTEX_BASE_URL, for Claude ANTHROPIC_VERTEX_BASE_URL, or Google's."`
	APIKey               spec.Secret `yaml:"api_key" secret:"true" doc:"The express mode API key. Default: the project in GOOGLE_CLOUD_PROJECT, with the host's Google credentials."`
	provider.CallsConfig `yaml:",inline"`
}

var (
	_ provider.EndpointConfig   = (*vertexConfig)(nil)
	_ provider.CredentialConfig = (*vertexConfig)(nil)
	_ provider.LimitedConfig    = (*vertexConfig)(nil)
	_ provider.FallbackConfig   = (*vertexConfig)(nil)
)

// vertexNames matches Google's models on Vertex AI, and tuned models.
var vertexNames = regexp.MustCompile(`^(gemini|gemma|learnlm|google/|projects/|publishers/google/|endpoints/|\d+$)`)

// DecodeSpec decodes and checks the config.
func (c *vertexConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := modelapi.DecodeService(n, c, &c.BaseURL, &c.CallsConfig)
	if claude := c.claudeConfig(); claude != nil {
		if at, problem := n.Get("api_key"), claude.KeyProblem(); at != nil && problem != "" {
			ds = append(ds, at.Errorf("value", "%s", problem))
		}
		return ds
	}
	if c.Model != "" && !vertexNames.MatchString(c.Model) {
		ds = append(ds, n.Get("model").Errorf("model", "vertex_ai has no client for %q: it supports Google's models and Claude", c.Model).
			WithHint("declare the model under models: in app.yaml with the provider openai_compatible, "+
				"the base_url https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/endpoints/openapi and a token as api_key"))
	}
	return ds
}

func (c *vertexConfig) geminiAccess() geminiAccess {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value, backend: vertexBackend}
}

// claudeConfig returns the config for a Claude model, or nil for Google's models.
func (c *vertexConfig) claudeConfig() modelapi.HostedConfig {
	return c.claude.ConfigOf(modelapi.HostedModel{Name: c.Model, BaseURL: c.BaseURL, APIKey: c.APIKey, Calls: c.CallsConfig})
}

// Endpoint returns the address that the model's calls go to.
func (c *vertexConfig) Endpoint(env provider.Env) provider.Endpoint {
	if claude := c.claudeConfig(); claude != nil {
		return claude.Endpoint(env)
	}
	return c.geminiAccess().describeEndpoint(env, c.BaseURL)
}

// KeyVariables returns none if there is a project, and the vendor's for Claude.
func (c *vertexConfig) KeyVariables(env provider.Env) []string {
	if claude := c.claudeConfig(); claude != nil {
		return claude.KeyVariables(env)
	}
	return c.geminiAccess().keyVariables(modelapi.NewVariables(env.Lookup, env.App))
}

// ADKClass returns ADK's class for Claude on Vertex AI.
func (*vertexConfig) ADKClass() (class, prefix string) { return "Claude", "vertex_ai/" }

// VertexKind returns the kind for models on Vertex AI. claude adds Claude's; it may be nil.
func VertexKind(claude modelapi.HostVendor) spec.Kind[provider.Env, model.LLM] {
	return spec.NewKindFrom("vertex_ai", "Gemini and Claude on Vertex AI.", func() *vertexConfig { return &vertexConfig{claude: claude} }, buildVertex)
}

func buildVertex(ctx context.Context, env provider.Env, c *vertexConfig) (model.LLM, error) {
	if claude := c.claudeConfig(); claude != nil {
		return claude.BuildModel(ctx, env)
	}
	return New(strings.TrimPrefix(c.Model, "google/"), &Options{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, Backend: vertexBackend, HTTP: env.HTTP,
		Timeouts: c.TimeoutOptions(), Retry: *c.RetryOptions(env), Logger: env.Logger,
	}), nil
}

// apigeeConfig is the config for a model behind an Apigee proxy (adk-python models/apigee_llm.py).
type apigeeConfig struct {
	openAI modelapi.HostVendor

	Provider             string      `yaml:"provider" doc:"apigee."`
	Model                string      `yaml:"model" required:"true" doc:"[PROVIDER/][VERSION/]MODEL, where PROVIDER is openai, gemini or vertex_ai, and VERSION is such as v1. Default: the version in Google's SDK."`
	BaseURL              spec.Text   `yaml:"base_url" doc:"The proxy URL. Default: APIGEE_PROXY_URL."`
	APIKey               spec.Secret `yaml:"api_key" secret:"true" doc:"The API key for Gemini, or the bearer token for openai. Default for Gemini, if base_url is not set: GOOGLE_API_KEY or GEMINI_API_KEY."`
	provider.CallsConfig `yaml:",inline"`
}

var (
	_ provider.EndpointConfig   = (*apigeeConfig)(nil)
	_ provider.CredentialConfig = (*apigeeConfig)(nil)
	_ provider.LimitedConfig    = (*apigeeConfig)(nil)
	_ provider.FallbackConfig   = (*apigeeConfig)(nil)
)

const apigeeVariable = "APIGEE_PROXY_URL"

// openAIProvider is the provider for models with OpenAI's API.
const openAIProvider = "openai"

// DecodeSpec decodes and checks the config.
func (c *apigeeConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := modelapi.DecodeService(n, c, &c.BaseURL, &c.CallsConfig)
	if _, ok := parseApigeeName(c.Model); c.Model != "" && !ok {
		ds = append(ds, n.Get("model").Errorf("model", "an apigee model must be [PROVIDER/][VERSION/]MODEL, got %q", c.Model).
			WithHint("PROVIDER is openai, gemini or vertex_ai, and VERSION is such as v1"))
	}
	if c.openAI == nil && c.RefusesGeminiTools() {
		ds = append(ds, n.Get("model").Errorf("model", "this program has no client for OpenAI's API on Apigee"))
	}
	return ds
}

// An apigeeName is a parsed model name. Its provider may be empty.
type apigeeName struct{ provider, version, model string }

func parseApigeeName(name string) (apigeeName, bool) {
	var parsed apigeeName
	words := strings.Split(name, "/")
	if slices.Contains([]string{openAIProvider, geminiBackend, vertexBackend}, words[0]) {
		parsed.provider, words = words[0], words[1:]
	}
	if len(words) == 2 && strings.HasPrefix(words[0], "v") {
		parsed.version, words = words[0], words[1:]
	}
	if len(words) != 1 || words[0] == "" {
		return apigeeName{}, false
	}
	parsed.model = words[0]
	return parsed, true
}

// chatConfig returns the config for a model with OpenAI's API, or nil for Google's models.
func (c *apigeeConfig) chatConfig() modelapi.HostedConfig {
	name, _ := parseApigeeName(c.Model)
	if name.provider != openAIProvider {
		return nil
	}
	return c.openAI.ConfigOf(modelapi.HostedModel{Name: name.model, BaseURL: c.BaseURL, APIKey: c.APIKey, Calls: c.CallsConfig})
}

func (c *apigeeConfig) geminiAccess(name apigeeName) geminiAccess {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value, backend: name.provider, baseVariable: apigeeVariable}
}

// Endpoint returns the address that the model's calls go to.
func (c *apigeeConfig) Endpoint(env provider.Env) provider.Endpoint {
	if chat := c.chatConfig(); chat != nil {
		return chat.Endpoint(env)
	}
	name, _ := parseApigeeName(c.Model)
	return c.geminiAccess(name).describeEndpoint(env, c.BaseURL)
}

// KeyVariables returns the Gemini API's, or none for OpenAI's: the proxy adds the key.
func (c *apigeeConfig) KeyVariables(env provider.Env) []string {
	if chat := c.chatConfig(); chat != nil {
		return chat.KeyVariables(env)
	}
	name, _ := parseApigeeName(c.Model)
	return c.geminiAccess(name).keyVariables(modelapi.NewVariables(env.Lookup, env.App))
}

// ADKClass returns ADK's class for models behind a proxy: their names have the prefix.
func (*apigeeConfig) ADKClass() (class, prefix string) { return "ApigeeLlm", "" }

// ApigeeKind returns the kind for models behind an Apigee proxy. openAI adds those with OpenAI's
// API; it may be nil.
func ApigeeKind(openAI modelapi.HostVendor) spec.Kind[provider.Env, model.LLM] {
	return spec.NewKindFrom("apigee", "Models behind an Apigee proxy, at the address in APIGEE_PROXY_URL.",
		func() *apigeeConfig { return &apigeeConfig{openAI: openAI} }, buildApigee)
}

func buildApigee(ctx context.Context, env provider.Env, c *apigeeConfig) (model.LLM, error) {
	name, ok := parseApigeeName(c.Model)
	if !ok {
		return nil, fmt.Errorf("an apigee model must be [PROVIDER/][VERSION/]MODEL, got %q", c.Model)
	}
	if chat := c.chatConfig(); chat != nil {
		return chat.BuildModel(ctx, env)
	}
	return New(name.model, &Options{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, BaseVariable: apigeeVariable,
		Backend: name.provider, APIVersion: name.version, HTTP: env.HTTP,
		Timeouts: c.TimeoutOptions(), Retry: *c.RetryOptions(env), Logger: env.Logger,
	}), nil
}

// Credential describes the login, or the express mode key.
func (c *vertexConfig) Credential(env provider.Env) provider.Credential {
	if claude := c.claudeConfig(); claude != nil {
		return claude.Credential(env)
	}
	return c.geminiAccess().describeCredential(env)
}

// Credential describes the key. For OpenAI's API the proxy adds it.
func (c *apigeeConfig) Credential(env provider.Env) provider.Credential {
	if chat := c.chatConfig(); chat != nil {
		return chat.Credential(env)
	}
	name, _ := parseApigeeName(c.Model)
	return c.geminiAccess(name).describeCredential(env)
}

// RefusesGeminiTools reports whether the model is Claude.
func (c *vertexConfig) RefusesGeminiTools() bool { return c.claudeConfig() != nil }

// RefusesGeminiTools reports whether the proxy speaks OpenAI's API for the model.
func (c *apigeeConfig) RefusesGeminiTools() bool {
	name, _ := parseApigeeName(c.Model)
	return name.provider == openAIProvider
}

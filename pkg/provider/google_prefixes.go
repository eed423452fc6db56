package provider

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// vertexConfig is the config of a model on Vertex AI. It ignores GOOGLE_GENAI_USE_VERTEXAI.
type vertexConfig struct {
	Provider string      `yaml:"provider" doc:"vertex_ai."`
	Model    string      `yaml:"model" required:"true" doc:"The model's name, such as gemini-flash-latest or claude-opus-4-6."`
	BaseURL  spec.Text   `yaml:"base_url" doc:"The URL of the service. Default: GOOGLE_VERTEX_BASE_URL, for Claude ANTHROPIC_VERTEX_BASE_URL, or Google's."`
	APIKey   spec.Secret `yaml:"api_key" secret:"true" doc:"The API key of express mode. Default: the project in GOOGLE_CLOUD_PROJECT, with the host's Google credentials."`
	Calls    callsConfig `yaml:",inline"`
}

var (
	_ EndpointConfig = (*vertexConfig)(nil)
	_ LimitedConfig  = (*vertexConfig)(nil)
	_ FallbackConfig = (*vertexConfig)(nil)
)

// vertexNames matches the models of Google on Vertex AI, and tuned models.
var vertexNames = regexp.MustCompile(`^(gemini|gemma|learnlm|google/|projects/|publishers/google/|endpoints/|\d+$)`)

// DecodeSpec decodes and checks the config.
func (c *vertexConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := decodeService(n, c, &c.BaseURL, &c.Calls)
	if c.claudeConfig() != nil {
		if at := n.Get("api_key"); at != nil {
			ds = append(ds, at.Errorf("value", "%s", noVertexKeyForClaude))
		}
		return ds
	}
	if c.Model != "" && !vertexNames.MatchString(c.Model) {
		ds = append(ds, n.Get("model").Errorf("model", "vertex_ai has no client for %q: it supports the models of Google and Claude", c.Model).
			WithHint("declare the model under models: in app.yaml with the provider openai_compatible, "+
				"the base_url https://LOCATION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/LOCATION/endpoints/openapi and a token as api_key"))
	}
	return ds
}

// Fallbacks returns the names of the fallback models.
func (c *vertexConfig) Fallbacks() []FallbackRef { return c.Calls.Fallback }

// CallLimits returns the limits of calls.
func (c *vertexConfig) CallLimits() (Limits, bool) { return c.Calls.Limits.Limits() }

// ModelPrice returns the price.
func (c *vertexConfig) ModelPrice() *Price { return c.Calls.Price.priceOrNil() }

// ContextLimits returns the maximum sizes of prompts and responses.
func (c *vertexConfig) ContextLimits() ContextLimits { return c.Calls.Context.contextLimits() }

func (c *vertexConfig) geminiAccess() geminiAccess {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value, backend: vertexBackend}
}

// claudeConfig returns the config of a Claude model, or nil for models of Google.
func (c *vertexConfig) claudeConfig() *anthropicConfig {
	name := strings.TrimPrefix(c.Model, "anthropic/")
	if !claudeName.MatchString(name) {
		return nil
	}
	return &anthropicConfig{Model: name, BaseURL: c.BaseURL, Vertex: &anthropicVertexConfig{}, Calls: c.Calls}
}

// Endpoint returns the address of the model's calls.
func (c *vertexConfig) Endpoint(env Env) Endpoint {
	if claude := c.claudeConfig(); claude != nil {
		return claude.Endpoint(env)
	}
	return c.geminiAccess().describeEndpoint(env, c.BaseURL)
}

// KeyVariables returns none if there is a project, and none for Claude.
func (c *vertexConfig) KeyVariables(env Env) []string {
	if c.claudeConfig() != nil {
		return nil
	}
	return c.geminiAccess().keyVariables(newVariables(env.Lookup, env.App))
}

func buildVertex(ctx context.Context, env Env, c *vertexConfig) (model.LLM, error) {
	if claude := c.claudeConfig(); claude != nil {
		return buildAnthropic(ctx, env, claude)
	}
	return NewGemini(strings.TrimPrefix(c.Model, "google/"), &GeminiOptions{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, Backend: vertexBackend, HTTP: env.HTTP,
		Timeouts: c.Calls.Timeouts.timeoutOptions(), Retry: *c.Calls.Retry.retryOptions(env), Logger: env.Logger,
	}), nil
}

// apigeeConfig is the config of a model behind an Apigee proxy (adk-python
// models/apigee_llm.py).
type apigeeConfig struct {
	Provider string      `yaml:"provider" doc:"apigee."`
	Model    string      `yaml:"model" required:"true" doc:"[PROVIDER/][VERSION/]MODEL, where PROVIDER is openai, gemini or vertex_ai, and VERSION is such as v1. Default: that of Google's SDK."`
	BaseURL  spec.Text   `yaml:"base_url" doc:"The URL of the proxy. Default: APIGEE_PROXY_URL."`
	APIKey   spec.Secret `yaml:"api_key" secret:"true" doc:"The API key for Gemini, or the bearer token for openai. Default for Gemini, if base_url is not set: GOOGLE_API_KEY or GEMINI_API_KEY."`
	Calls    callsConfig `yaml:",inline"`
}

var (
	_ EndpointConfig = (*apigeeConfig)(nil)
	_ LimitedConfig  = (*apigeeConfig)(nil)
	_ FallbackConfig = (*apigeeConfig)(nil)
)

const apigeeVariable = "APIGEE_PROXY_URL"

// DecodeSpec decodes and checks the config.
func (c *apigeeConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := decodeService(n, c, &c.BaseURL, &c.Calls)
	if _, ok := parseApigeeName(c.Model); c.Model != "" && !ok {
		ds = append(ds, n.Get("model").Errorf("model", "a model of apigee must be [PROVIDER/][VERSION/]MODEL, got %q", c.Model).
			WithHint("PROVIDER is openai, gemini or vertex_ai, and VERSION is such as v1"))
	}
	return ds
}

// Fallbacks returns the names of the fallback models.
func (c *apigeeConfig) Fallbacks() []FallbackRef { return c.Calls.Fallback }

// CallLimits returns the limits of calls.
func (c *apigeeConfig) CallLimits() (Limits, bool) { return c.Calls.Limits.Limits() }

// ModelPrice returns the price.
func (c *apigeeConfig) ModelPrice() *Price { return c.Calls.Price.priceOrNil() }

// ContextLimits returns the maximum sizes of prompts and responses.
func (c *apigeeConfig) ContextLimits() ContextLimits { return c.Calls.Context.contextLimits() }

// An apigeeName is the parsed name of a model. Its provider may be empty.
type apigeeName struct{ provider, version, model string }

func parseApigeeName(name string) (apigeeName, bool) {
	var parsed apigeeName
	words := strings.Split(name, "/")
	if slices.Contains([]string{"openai", geminiBackend, vertexBackend}, words[0]) {
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

// apigeeVendor is the proxy of models with OpenAI's API. It adds the key.
func apigeeVendor() *vendor {
	return &vendor{
		prefix: "apigee", title: "Apigee", example: "https://proxy.example.com/llm", baseVariables: []string{apigeeVariable}, keyless: true,
	}
}

func (c *apigeeConfig) geminiAccess(name apigeeName) geminiAccess {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value, backend: name.provider, baseVariable: apigeeVariable}
}

// Endpoint returns the address of the model's calls.
func (c *apigeeConfig) Endpoint(env Env) Endpoint {
	name, _ := parseApigeeName(c.Model)
	if name.provider == "openai" {
		return describeVendorEndpoint(apigeeVendor(), env, c.APIKey, c.BaseURL)
	}
	return c.geminiAccess(name).describeEndpoint(env, c.BaseURL)
}

// KeyVariables returns none for OpenAI's API: the proxy adds the key.
func (c *apigeeConfig) KeyVariables(env Env) []string {
	name, _ := parseApigeeName(c.Model)
	if name.provider == "openai" {
		return nil
	}
	return c.geminiAccess(name).keyVariables(newVariables(env.Lookup, env.App))
}

func buildApigee(_ context.Context, env Env, c *apigeeConfig) (model.LLM, error) {
	name, ok := parseApigeeName(c.Model)
	if !ok {
		return nil, fmt.Errorf("a model of apigee must be [PROVIDER/][VERSION/]MODEL, got %q", c.Model)
	}
	if name.provider == "openai" {
		return newChat(apigeeVendor(), name.model, &OpenAIOptions{
			Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), HTTP: env.HTTP,
			Timeouts: c.Calls.Timeouts.timeoutOptions(), Retry: *c.Calls.Retry.retryOptions(env), Logger: env.Logger,
		}), nil
	}
	return NewGemini(name.model, &GeminiOptions{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, BaseVariable: apigeeVariable,
		Backend: name.provider, APIVersion: name.version, HTTP: env.HTTP,
		Timeouts: c.Calls.Timeouts.timeoutOptions(), Retry: *c.Calls.Retry.retryOptions(env), Logger: env.Logger,
	}), nil
}

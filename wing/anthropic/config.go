package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strconv"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

type anthropicConfig struct {
	Provider             string                 `yaml:"provider" doc:"anthropic."`
	Model                string                 `yaml:"model" required:"true" doc:"The model's name, such as claude-sonnet-4-5, or its full name on Vertex AI: projects/P/locations/L/publishers/anthropic/models/M."`
	BaseURL              spec.Text              `yaml:"base_url" doc:"The service URL, without /v1/messages. Default: ANTHROPIC_BASE_URL, or Anthropic's; with vertex ANTHROPIC_VERTEX_BASE_URL, or Google's."`
	APIKey               spec.Secret            `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: ANTHROPIC_API_KEY."`
	Headers              map[string]spec.Secret `yaml:"headers" doc:"Headers to send with each call, such as anthropic-beta."`
	Vertex               *vertexConfig          `yaml:"vertex" doc:"Calls the model on Vertex AI with the host's Google credentials. {} uses GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION."`
	Thinking             thinkingSetting        `yaml:"thinking" doc:"off, adaptive, or a budget of at least 1024 tokens. Default: the model's. An agent's thinking config takes precedence."`
	Effort               string                 `yaml:"effort" enum:"low|medium|high|xhigh|max" doc:"How much work the model puts into its answers. Default: the model's."`
	Cache                string                 `yaml:"cache" enum:"auto|1h|off" default:"auto" doc:"Prompt caching for the tools, the instruction and the conversation: auto for 5 minutes or as long as context_cache_config sets, 1h for an hour, off never."`
	MaxOutputTokens      int32                  `yaml:"max_output_tokens" doc:"The maximum response length, thoughts included. Default: 8192, in addition to the thinking budget. An agent's max_output_tokens takes precedence."`
	provider.CallsConfig `yaml:",inline"`
}

type vertexConfig struct {
	Project  string `yaml:"project" doc:"The Google Cloud project. Default: GOOGLE_CLOUD_PROJECT."`
	Location string `yaml:"location" doc:"The region, such as europe-west1, or global. Default: GOOGLE_CLOUD_LOCATION, or global."`
}

var (
	_ provider.EndpointConfig   = (*anthropicConfig)(nil)
	_ provider.CredentialConfig = (*anthropicConfig)(nil)
	_ provider.NameConfig       = (*anthropicConfig)(nil)
	_ provider.KeyConfig        = (*anthropicConfig)(nil)
	_ provider.LimitedConfig    = (*anthropicConfig)(nil)
	_ provider.FallbackConfig   = (*anthropicConfig)(nil)
)

// DecodeSpec decodes and checks the config.
func (c *anthropicConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := modelapi.DecodeService(n, c, &c.BaseURL, &c.CallsConfig)
	vertex := resolveVertexName(c.Model, c.Vertex.vertexOptions())
	if vertex != nil && vertex.Location != "" {
		if _, err := modelapi.VertexURL(vertex.Location); err != nil {
			ds = append(ds, n.Get("model").Errorf("value", "location must be a region such as europe-west1, or global, got %q", vertex.Location))
		}
	}
	if at := n.Get("max_output_tokens"); at != nil && c.MaxOutputTokens < 1 {
		ds = append(ds, at.Errorf("value", "max_output_tokens must be at least 1"))
	}
	if at := n.Get("api_key"); at != nil && vertex != nil {
		ds = append(ds, at.Errorf("value", "%s", noVertexKeyForClaude))
	}
	ds.Sort()
	return ds
}

// vertexOptions returns the settings, or nil.
func (c *vertexConfig) vertexOptions() *Vertex {
	if c == nil {
		return nil
	}
	return &Vertex{Project: c.Project, Location: c.Location}
}

// claudeName matches Claude model names, also on Vertex AI.
var claudeName = regexp.MustCompile(`^claude-|^(projects/[^/]+/locations/[^/]+/)?publishers/anthropic/models/`)

// RecognizesName reports whether a name without a prefix is a Claude model's.
func (c *anthropicConfig) RecognizesName(name string) bool { return claudeName.MatchString(name) }

// KeyVariables returns the key's variable. Vertex AI needs no key.
func (c *anthropicConfig) KeyVariables(provider.Env) []string {
	if resolveVertexName(c.Model, c.Vertex.vertexOptions()) != nil {
		return nil
	}
	return []string{"ANTHROPIC_API_KEY"}
}

// Endpoint returns the address that the model's calls go to.
func (c *anthropicConfig) Endpoint(env provider.Env) provider.Endpoint {
	s, err := anthropicSettings(modelapi.NewVariables(env.Lookup, env.App), c.APIKey.Reveal(), c.BaseURL.Value, resolveVertexName(c.Model, c.Vertex.vertexOptions()))
	if err != nil {
		return provider.Endpoint{OfHost: true} // the first call reports it
	}
	return provider.Endpoint{URL: s.base.Value, At: c.BaseURL, OfHost: !s.base.OfApp && !s.key.OfApp && !s.project.OfApp, Account: modelapi.AccountOf(cmp.Or(s.key.Value, s.project.Value))}
}

func buildAnthropic(_ context.Context, env provider.Env, c *anthropicConfig) (model.LLM, error) {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value.Reveal())
	}
	return New(c.Model, &Options{
		Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), Vertex: c.Vertex.vertexOptions(), Header: header,
		MaxOutputTokens: c.MaxOutputTokens, Thinking: string(c.Thinking), Effort: c.Effort, Cache: c.Cache, HTTP: env.HTTP,
		Timeouts: c.TimeoutOptions(), Retry: *c.RetryOptions(env), Logger: env.Logger,
	}), nil
}

// A thinkingSetting is off, adaptive, or a token budget.
type thinkingSetting string

// DecodeSpec decodes the setting.
func (t *thinkingSetting) DecodeSpec(n *spec.Node) spec.Diagnostics {
	budget, err := strconv.Atoi(n.Value)
	switch {
	case n.Kind == spec.Scalar && (n.Value == thinkingOff || n.Value == thinkingAdaptive):
	case n.Kind != spec.Scalar || err != nil || budget < minThinkingBudget:
		return spec.Diagnostics{n.Errorf("value", "thinking must be off, adaptive or a budget of at least %d tokens, got %q", minThinkingBudget, n.Value)}
	}
	*t = thinkingSetting(n.Value)
	return nil
}

// SchemaSpec describes the written form.
func (t *thinkingSetting) SchemaSpec() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string", "enum": []any{thinkingOff, thinkingAdaptive}},
		map[string]any{"type": "integer", "minimum": minThinkingBudget},
	}}
}

// Credential describes the key, or the login on Vertex AI.
func (c *anthropicConfig) Credential(env provider.Env) provider.Credential {
	vars := modelapi.NewVariables(env.Lookup, env.App)
	s, err := anthropicSettings(vars, c.APIKey.Reveal(), c.BaseURL.Value, resolveVertexName(c.Model, c.Vertex.vertexOptions()))
	switch {
	case err != nil:
		return provider.Credential{Variable: "GOOGLE_CLOUD_LOCATION", Missing: err.Error()}
	case s.vertex && s.project.Value == "":
		return provider.Credential{Variable: "GOOGLE_CLOUD_PROJECT", Missing: noAnthropicProject}
	case s.vertex:
		return provider.Credential{From: modelapi.FromGoogle}
	case s.key.Value != "":
		return provider.Credential{From: vars.SourceOf(c.APIKey.Reveal(), s.key, "ANTHROPIC_API_KEY")}
	case modelapi.HasHeader(c.Headers, "X-Api-Key", "Authorization"):
		return provider.Credential{From: modelapi.FromHeaders}
	case c.BaseURL.Value != "":
		return provider.Credential{}
	case s.base.OfApp:
		return provider.Credential{Missing: noAnthropicKeyForBase}
	}
	return provider.Credential{Variable: "ANTHROPIC_API_KEY", Missing: noAnthropicKey}
}

// RefusesGeminiTools returns true.
func (c *anthropicConfig) RefusesGeminiTools() bool { return true }

// ADKClass returns ADK's class for Claude at Anthropic.
func (*anthropicConfig) ADKClass() (class, prefix string) { return "AnthropicLlm", "anthropic/" }

// Kind returns the kind for Claude models, through Anthropic's API or Vertex AI.
func Kind() spec.Kind[provider.Env, model.LLM] {
	return spec.NewKind("anthropic", "Claude, through Anthropic's API or Vertex AI.", buildAnthropic)
}

package openai

import (
	"context"
	"fmt"
	"net/http"
	"path"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A chatConfig is the config for all services with OpenAI's chat completions API.
type chatConfig struct {
	vendor *chatVendor

	Provider             string                 `yaml:"provider" doc:"One of the providers above."`
	Model                string                 `yaml:"model" required:"true" doc:"The model's name at the service."`
	BaseURL              spec.Text              `yaml:"base_url" doc:"The service URL, without /chat/completions. Default: the URL in the provider's variable, or its usual URL."`
	APIKey               spec.Secret            `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: the key in the provider's variable. Local servers may need none."`
	Headers              map[string]spec.Secret `yaml:"headers" doc:"Headers to send with each call."`
	API                  string                 `yaml:"api" enum:"chat|responses" doc:"The service's API: chat completions, or OpenAI's Responses. Default: responses for the provider openai's reasoning models at OpenAI's own address, else chat."`
	Thoughts             string                 `yaml:"thoughts" enum:"drop|tools|always" doc:"Which of its own thoughts the model gets back: none, the current turn's, or all. Default: what the service requires."`
	provider.CallsConfig `yaml:",inline"`
}

var (
	_ provider.EndpointConfig   = (*chatConfig)(nil)
	_ provider.CredentialConfig = (*chatConfig)(nil)
	_ provider.NameConfig       = (*chatConfig)(nil)
	_ provider.LimitedConfig    = (*chatConfig)(nil)
	_ provider.FallbackConfig   = (*chatConfig)(nil)
	_ provider.KeyConfig        = (*chatConfig)(nil)
)

// DecodeSpec decodes and checks the config.
func (c *chatConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return modelapi.DecodeService(n, c, &c.BaseURL, &c.CallsConfig)
}

// RecognizesName reports whether a model name without a prefix belongs to the service.
func (c *chatConfig) RecognizesName(name string) bool {
	return c.vendor.names != nil && c.vendor.names.MatchString(name)
}

// Endpoint returns the address that the model's calls go to.
func (c *chatConfig) Endpoint(env provider.Env) provider.Endpoint {
	return c.vendor.DescribeEndpoint(env, c.APIKey, c.BaseURL)
}

// KeyVariables returns the service's variables.
func (c *chatConfig) KeyVariables(provider.Env) []string {
	return c.vendor.KeyVariables
}

func buildChat(_ context.Context, env provider.Env, c *chatConfig) (model.LLM, error) {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value.Reveal())
	}
	return newChat(c.vendor, c.Model, &Options{
		Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), Header: header, API: c.API, Thoughts: c.Thoughts, HTTP: env.HTTP,
		Timeouts: c.TimeoutOptions(), Retry: *c.RetryOptions(env), Logger: env.Logger,
	}), nil
}

// Credential describes the key.
func (c *chatConfig) Credential(env provider.Env) provider.Credential {
	if modelapi.HasHeader(c.Headers, "Authorization", "Api-Key") {
		return provider.Credential{From: modelapi.FromHeaders}
	}
	return c.vendor.DescribeCredential(env, c.APIKey.Reveal(), c.BaseURL.Value)
}

// RefusesGeminiTools returns true.
func (c *chatConfig) RefusesGeminiTools() bool { return true }

// DescribeServer returns how a document declares a model on another server.
func (c *chatConfig) DescribeServer(model string) string {
	if c.vendor.Prefix != compatiblePrefix {
		return ""
	}
	return fmt.Sprintf("for another server with OpenAI's API, write model: %[1]s, and under models: in app.yaml "+
		"%[1]s: {provider: openai_compatible, model: %[2]s, base_url: https://…/v1, api_key: \"${secret:…}\"}", path.Base(model), model)
}

// Kinds returns the kinds for services with OpenAI's chat completions API, and openai_compatible
// for any other.
func Kinds() spec.Kinds[provider.Env, model.LLM] {
	var kinds spec.Kinds[provider.Env, model.LLM]
	for _, v := range chatVendors() {
		kinds = append(kinds, spec.NewKindFrom(v.Prefix, v.describeVendor(), func() *chatConfig { return &chatConfig{vendor: v} }, buildChat))
	}
	return kinds
}

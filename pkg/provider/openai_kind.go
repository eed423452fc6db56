package provider

import (
	"context"
	"net/http"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

type openAIConfig struct {
	Provider string                 `yaml:"provider" doc:"openai_compatible."`
	Model    string                 `yaml:"model" required:"true" doc:"The model's name on the server."`
	BaseURL  spec.Text              `yaml:"base_url" doc:"The URL of the server, without /chat/completions. Default: OPENAI_BASE_URL, or OpenAI's."`
	APIKey   spec.Secret            `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: OPENAI_API_KEY. Local servers may need none."`
	Headers  map[string]spec.Secret `yaml:"headers" doc:"Headers to send with each call."`
	Calls    callsConfig            `yaml:",inline"`
}

// DecodeSpec decodes and checks the config.
func (c *openAIConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeService(n, c, &c.BaseURL, &c.Calls)
}

// Fallbacks returns the names of the fallback models.
func (c *openAIConfig) Fallbacks() []spec.Text { return c.Calls.Fallback }

func buildOpenAI(_ context.Context, env Env, c *openAIConfig) (model.LLM, error) {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value.Reveal())
	}
	return NewOpenAI(c.Model, &OpenAIOptions{
		Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), Header: header, HTTP: env.HTTP,
		Retry: *c.Calls.Retry.retryOptions(env), Logger: env.Logger,
	}), nil
}

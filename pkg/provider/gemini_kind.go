package provider

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

type geminiConfig struct {
	Provider string      `yaml:"provider" doc:"gemini."`
	Model    string      `yaml:"model" required:"true" doc:"The model's name, such as gemini-flash-latest."`
	BaseURL  spec.Text   `yaml:"base_url" doc:"The URL of the service. Default: Google's."`
	APIKey   spec.Secret `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: GOOGLE_API_KEY or GEMINI_API_KEY."`
	Calls    callsConfig `yaml:",inline"`
}

// DecodeSpec decodes and checks the config.
func (c *geminiConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeService(n, c, &c.BaseURL, &c.Calls)
}

// Fallbacks returns the names of the fallback models.
func (c *geminiConfig) Fallbacks() []spec.Text { return c.Calls.Fallback }

func buildGemini(_ context.Context, env Env, c *geminiConfig) (model.LLM, error) {
	return NewGemini(c.Model, &GeminiOptions{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, HTTP: env.HTTP,
		Retry:  *c.Calls.Retry.retryOptions(env),
		Logger: env.Logger,
	}), nil
}

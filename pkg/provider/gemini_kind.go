package provider

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

type geminiConfig struct {
	Provider string      `yaml:"provider" doc:"gemini."`
	Model    string      `yaml:"model" required:"true" doc:"The model's name, such as gemini-flash-latest."`
	BaseURL  spec.Text   `yaml:"base_url" doc:"The address of the service; without it that of Google."`
	APIKey   spec.Secret `yaml:"api_key" secret:"true" doc:"The key; without it GOOGLE_API_KEY or GEMINI_API_KEY."`
	Retry    retryConfig `yaml:"retry" doc:"When to ask again after a failed call."`
}

type retryConfig struct {
	Codes    []int `yaml:"codes" doc:"The HTTP statuses that are worth another try; without it 429, 500, 502, 503 and 504."`
	Attempts int   `yaml:"attempts" default:"3" doc:"How often to try in all, the first time included."`
}

// DecodeSpec checks also what the fields alone do not say.
func (c *geminiConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	if base := c.BaseURL; base.Value != "" {
		if problem := badBaseURL(base.Value); problem != "" {
			ds = append(ds, base.Errorf(0, "value", "%s", problem))
		}
	}
	ds = append(ds, c.Retry.check(n.Get("retry"))...)
	ds.Sort()
	return ds
}

func (c *retryConfig) check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if at := n.Get("attempts"); at != nil && c.Attempts < 1 {
		ds = append(ds, at.Errorf("value", "attempts must be at least 1, which is no retry"))
	}
	codes := n.Get("codes")
	for i, code := range c.Codes {
		if code < 400 || code > 599 {
			ds = append(ds, codes.Items[i].Errorf("value", "%d is no status of a failure: use 400 to 599", code))
		}
	}
	return ds
}

func buildGemini(_ context.Context, env Env, c *geminiConfig) (model.LLM, error) {
	return NewGemini(c.Model, &GeminiOptions{
		Lookup: env.Lookup, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, HTTP: env.HTTP,
		Retry:  RetryOptions{Codes: c.Retry.Codes, Attempts: c.Retry.Attempts, Wait: env.Wait, Logger: env.Logger},
		Logger: env.Logger,
	}), nil
}

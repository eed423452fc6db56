package gemini

import (
	"context"
	"regexp"
	"strings"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

type geminiConfig struct {
	Provider             string      `yaml:"provider" doc:"gemini."`
	Model                string      `yaml:"model" required:"true" doc:"The model's name, such as gemini-flash-latest."`
	BaseURL              spec.Text   `yaml:"base_url" doc:"The service URL. Default: Google's."`
	APIKey               spec.Secret `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: GOOGLE_API_KEY or GEMINI_API_KEY."`
	provider.CallsConfig `yaml:",inline"`
}

var (
	_ provider.EndpointConfig   = (*geminiConfig)(nil)
	_ provider.CredentialConfig = (*geminiConfig)(nil)
	_ provider.NameConfig       = (*geminiConfig)(nil)
	_ provider.LimitedConfig    = (*geminiConfig)(nil)
	_ provider.FallbackConfig   = (*geminiConfig)(nil)
	_ provider.KeyConfig        = (*geminiConfig)(nil)
)

// DecodeSpec decodes and checks the config.
func (c *geminiConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return modelapi.DecodeService(n, c, &c.BaseURL, &c.CallsConfig)
}

// geminiNames matches the model names that Gemini's service has.
var geminiNames = regexp.MustCompile(`^(gemini|gemma|learnlm|models/|projects/|publishers/google/|tunedModels/)`)

// RecognizesName reports whether a model name without a prefix belongs to Gemini's
// service.
func (c *geminiConfig) RecognizesName(name string) bool {
	return geminiNames.MatchString(name) && !strings.Contains(name, "publishers/anthropic/")
}

// Endpoint returns the address that the model's calls go to.
func (c *geminiConfig) Endpoint(env provider.Env) provider.Endpoint {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value}.describeEndpoint(env, c.BaseURL)
}

// KeyVariables returns the Gemini API's variables. A Vertex AI project needs no key.
func (c *geminiConfig) KeyVariables(env provider.Env) []string {
	return geminiAccess{base: c.BaseURL.Value}.keyVariables(modelapi.NewVariables(env.Lookup, env.App))
}

func buildGemini(_ context.Context, env provider.Env, c *geminiConfig) (model.LLM, error) {
	return New(c.Model, &Options{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, HTTP: env.HTTP,
		Timeouts: c.TimeoutOptions(), Retry: *c.RetryOptions(env), Logger: env.Logger,
	}), nil
}

// Credential describes the key or the login.
func (c *geminiConfig) Credential(env provider.Env) provider.Credential {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value}.describeCredential(env)
}

// DefaultModel returns the model for agents that neither name nor inherit one.
func (*geminiConfig) DefaultModel() (name, title string) {
	return "gemini-flash-latest", "a Gemini model"
}

// ADKClass returns ADK's class for Gemini models.
func (*geminiConfig) ADKClass() (class, prefix string) { return "Gemini", "gemini/" }

// Kind returns the kind for Gemini models, through the Gemini API or Vertex AI.
func Kind() spec.Kind[provider.Env, model.LLM] {
	return spec.NewKind("gemini", "Gemini, through the Gemini API or Vertex AI.", buildGemini)
}

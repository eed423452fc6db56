package provider

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

const geminiURL = "https://generativelanguage.googleapis.com/"

type geminiConfig struct {
	Provider    string      `yaml:"provider" doc:"gemini."`
	Model       string      `yaml:"model" required:"true" doc:"The model's name, such as gemini-flash-latest."`
	BaseURL     spec.Text   `yaml:"base_url" doc:"The URL of the service. Default: Google's."`
	APIKey      spec.Secret `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: GOOGLE_API_KEY or GEMINI_API_KEY."`
	CallsConfig `yaml:",inline"`
}

var (
	_ EndpointConfig   = (*geminiConfig)(nil)
	_ CredentialConfig = (*geminiConfig)(nil)
	_ NameConfig       = (*geminiConfig)(nil)
	_ LimitedConfig    = (*geminiConfig)(nil)
	_ FallbackConfig   = (*geminiConfig)(nil)
	_ KeyConfig        = (*geminiConfig)(nil)
)

// DecodeSpec decodes and checks the config.
func (c *geminiConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeService(n, c, &c.BaseURL, &c.CallsConfig)
}

// geminiNames matches the model names of Gemini's service.
var geminiNames = regexp.MustCompile(`^(gemini|gemma|learnlm|models/|projects/|publishers/google/|tunedModels/)`)

// RecognizesName reports whether a model name without a prefix belongs to Gemini's
// service.
func (c *geminiConfig) RecognizesName(name string) bool {
	return geminiNames.MatchString(name) && !strings.Contains(name, "publishers/anthropic/")
}

// Endpoint returns the address of the model's calls.
func (c *geminiConfig) Endpoint(env Env) Endpoint {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value}.describeEndpoint(env, c.BaseURL)
}

// KeyVariables returns the variables of the Gemini API. A project of Vertex AI needs no key.
func (c *geminiConfig) KeyVariables(env Env) []string {
	return geminiAccess{base: c.BaseURL.Value}.keyVariables(newVariables(env.Lookup, env.App))
}

func buildGemini(_ context.Context, env Env, c *geminiConfig) (model.LLM, error) {
	return NewGemini(c.Model, &GeminiOptions{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, HTTP: env.HTTP,
		Timeouts: c.TimeoutOptions(), Retry: *c.RetryOptions(env), Logger: env.Logger,
	}), nil
}

// A geminiChoice is the backend of a Gemini model with its address and credentials.
type geminiChoice struct {
	vertex             bool
	base, key, project setting
	location           string
}

// geminiAccess is how a Gemini model is reached; the zero value follows the variables of
// Google's SDK.
type geminiAccess struct {
	key, base string
	// backend is geminiBackend or vertexBackend; "" follows the switches.
	backend string
	// baseVariable replaces the variables of the address, which is then required.
	baseVariable string
}

const (
	geminiBackend = "gemini"
	vertexBackend = "vertex_ai"
)

// usesVertex reports whether the backend is Vertex AI.
func (a geminiAccess) usesVertex(v variables) bool {
	if a.backend == "" {
		return vertexIsSet(v)
	}
	return a.backend == vertexBackend
}

// chooseBase returns the address, which is empty for the usual one of Vertex AI, or if
// there is none.
func (a geminiAccess) chooseBase(v variables) setting {
	switch {
	case a.baseVariable != "":
		return v.chooseBase(a.base, a.baseVariable, "")
	case a.usesVertex(v):
		return v.chooseBase(a.base, "GOOGLE_VERTEX_BASE_URL", "")
	}
	return v.chooseBase(a.base, "GOOGLE_GEMINI_BASE_URL", geminiURL)
}

// resolveEndpoint chooses the backend, the address and the credentials. On Vertex AI it
// prefers a key of the document, then the project, then a key of the environment, like
// the SDK. A base URL alone needs no credentials: a proxy adds them.
func (a geminiAccess) resolveEndpoint(v variables) (geminiChoice, error) {
	keys := geminiKeyVariables()
	c := geminiChoice{vertex: a.usesVertex(v), base: a.chooseBase(v)}
	if a.baseVariable != "" && c.base.value == "" {
		return c, fmt.Errorf("no address: set %s, or give the model a base_url under models: in app.yaml", a.baseVariable)
	}
	if !c.vertex {
		c.key = v.chooseKey(a.key, c.base, keys...)
		return c, nil
	}
	if a.key != "" {
		c.key = setting{a.key, true}
	} else if c.project = v.firstSet("GOOGLE_CLOUD_PROJECT"); c.project.value != "" {
		c.location = cmp.Or(v.valueOf("GOOGLE_CLOUD_LOCATION"), v.valueOf("GOOGLE_CLOUD_REGION"), "global")
	} else {
		c.key = v.chooseKey("", c.base, keys...)
	}
	if c.base.value != "" {
		return c, nil
	}
	usual, err := vertexURL(c.location)
	c.base.value = usual
	return c, err
}

// describeEndpoint returns the endpoint of a config whose address is at.
func (a geminiAccess) describeEndpoint(env Env, at spec.Text) Endpoint {
	c, err := a.resolveEndpoint(newVariables(env.Lookup, env.App))
	if err != nil {
		return Endpoint{OfHost: true} // the first call reports it
	}
	return Endpoint{
		URL: c.base.value, At: at, OfHost: !c.base.ofApp && !c.key.ofApp && !c.project.ofApp,
		Account: accountOf(cmp.Or(c.key.value, c.project.value)),
	}
}

// vertexIsSet reads both switches; the newer one takes precedence if it is set.
func vertexIsSet(v variables) bool {
	for _, name := range []string{"GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"} {
		if s, ok := v.lookupVar(name); ok {
			return s.value == "1" || strings.EqualFold(s.value, "true")
		}
	}
	return false
}

// keyVariables returns the variables of the key. A project of Vertex AI needs none.
func (a geminiAccess) keyVariables(v variables) []string {
	c, err := a.resolveEndpoint(v)
	if err != nil || c.project.value != "" {
		return nil
	}
	return geminiKeyVariables()
}

func geminiKeyVariables() []string { return []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"} }

// Credential describes the key or the login.
func (c *geminiConfig) Credential(env Env) Credential {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value}.describeCredential(env)
}

// describeCredential describes the key, or the login on Vertex AI.
func (a geminiAccess) describeCredential(env Env) Credential {
	vars := newVariables(env.Lookup, env.App)
	c, err := a.resolveEndpoint(vars)
	switch {
	case err != nil && c.base.value == "" && a.baseVariable != "":
		return Credential{Variable: a.baseVariable, Missing: err.Error()}
	case err != nil:
		return Credential{Variable: "GOOGLE_CLOUD_LOCATION", Missing: err.Error()}
	case c.project.value != "":
		return Credential{From: fromGoogle}
	case c.key.value != "":
		return Credential{From: vars.sourceOf(a.key, c.key, geminiKeyVariables()...)}
	case c.vertex && a.chooseBase(vars).value != "":
		return Credential{} // a proxy adds it
	case c.vertex:
		return Credential{Variable: "GOOGLE_CLOUD_PROJECT", Missing: noVertexProject}
	case c.base.ofApp:
		return Credential{Missing: noGeminiKeyForBase}
	}
	return Credential{Variable: geminiKeyVariables()[0], Missing: noGeminiKey}
}

// GeminiKind returns the kind of Gemini models, through the Gemini API or Vertex AI.
func GeminiKind() spec.Kind[Env, model.LLM] {
	return spec.NewKind("gemini", "Gemini, through the Gemini API or Vertex AI.", buildGemini)
}

package gemini

import (
	"cmp"
	"fmt"
	"strings"

	"agenthost/internal/modelapi"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

const geminiURL = "https://generativelanguage.googleapis.com/"

// A geminiChoice is a Gemini model's backend with its address and credentials.
type geminiChoice struct {
	vertex             bool
	base, key, project modelapi.Setting
	location           string
}

// geminiAccess describes how to reach a Gemini model; the zero value follows the variables that
// Google's SDK reads.
type geminiAccess struct {
	key, base string
	// backend is geminiBackend or vertexBackend; "" follows the switches.
	backend string
	// baseVariable replaces the address variables; the address is then required.
	baseVariable string
}

const (
	geminiBackend = "gemini"
	vertexBackend = "vertex_ai"
)

// usesVertex reports whether the backend is Vertex AI.
func (a geminiAccess) usesVertex(v modelapi.Variables) bool {
	if a.backend != "" {
		return a.backend == vertexBackend
	}
	// The newer switch takes precedence if it is set.
	for _, name := range []string{"GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"} {
		if s, ok := v.LookupVar(name); ok {
			return s.Value == "1" || strings.EqualFold(s.Value, "true")
		}
	}
	return false
}

// chooseBase returns the address, or "" for Vertex AI's usual address or if there is none.
func (a geminiAccess) chooseBase(v modelapi.Variables) modelapi.Setting {
	switch {
	case a.baseVariable != "":
		return v.ChooseBase(a.base, a.baseVariable, "")
	case a.usesVertex(v):
		return v.ChooseBase(a.base, "GOOGLE_VERTEX_BASE_URL", "")
	}
	return v.ChooseBase(a.base, "GOOGLE_GEMINI_BASE_URL", geminiURL)
}

// resolveEndpoint chooses the backend, the address and the credentials. On Vertex AI it prefers the
// document's key, then the project, then an environment key, like the SDK. A base URL alone needs
// no credentials: a proxy adds them.
func (a geminiAccess) resolveEndpoint(v modelapi.Variables) (geminiChoice, error) {
	keys := geminiKeyVariables()
	c := geminiChoice{vertex: a.usesVertex(v), base: a.chooseBase(v)}
	if a.baseVariable != "" && c.base.Value == "" {
		return c, fmt.Errorf("no address: set %s, or give the model a base_url under models: in app.yaml", a.baseVariable)
	}
	if !c.vertex {
		c.key = v.ChooseKey(a.key, c.base, keys...)
		return c, nil
	}
	if a.key != "" {
		c.key = modelapi.Setting{Value: a.key, OfApp: true}
	} else if c.project = v.FirstSet("GOOGLE_CLOUD_PROJECT"); c.project.Value != "" {
		c.location = cmp.Or(v.ValueOf("GOOGLE_CLOUD_LOCATION"), v.ValueOf("GOOGLE_CLOUD_REGION"), "global")
	} else {
		c.key = v.ChooseKey("", c.base, keys...)
	}
	if c.base.Value != "" {
		return c, nil
	}
	usual, err := modelapi.VertexURL(c.location)
	c.base.Value = usual
	return c, err
}

// describeEndpoint returns the endpoint for a config whose address is at.
func (a geminiAccess) describeEndpoint(env provider.Env, at spec.Text) provider.Endpoint {
	c, err := a.resolveEndpoint(modelapi.NewVariables(env.Lookup, env.App))
	if err != nil {
		return provider.Endpoint{OfHost: true} // the first call reports it
	}
	return provider.Endpoint{
		URL: c.base.Value, At: at, OfHost: !c.base.OfApp && !c.key.OfApp && !c.project.OfApp,
		Account: modelapi.AccountOf(cmp.Or(c.key.Value, c.project.Value)),
	}
}

// keyVariables returns the key's variables. A Vertex AI project needs none.
func (a geminiAccess) keyVariables(v modelapi.Variables) []string {
	c, err := a.resolveEndpoint(v)
	if err != nil || c.project.Value != "" {
		return nil
	}
	return geminiKeyVariables()
}

func geminiKeyVariables() []string { return []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"} }

// describeCredential describes the key, or the login on Vertex AI.
func (a geminiAccess) describeCredential(env provider.Env) provider.Credential {
	vars := modelapi.NewVariables(env.Lookup, env.App)
	c, err := a.resolveEndpoint(vars)
	switch {
	case err != nil && c.base.Value == "" && a.baseVariable != "":
		return provider.Credential{Variable: a.baseVariable, Missing: err.Error()}
	case err != nil:
		return provider.Credential{Variable: "GOOGLE_CLOUD_LOCATION", Missing: err.Error()}
	case c.project.Value != "":
		return provider.Credential{From: modelapi.FromGoogle}
	case c.key.Value != "":
		return provider.Credential{From: vars.SourceOf(a.key, c.key, geminiKeyVariables()...)}
	case c.vertex && a.chooseBase(vars).Value != "":
		return provider.Credential{} // a proxy adds it
	case c.vertex:
		return provider.Credential{Variable: "GOOGLE_CLOUD_PROJECT", Missing: noVertexProject}
	case c.base.OfApp:
		return provider.Credential{Missing: noGeminiKeyForBase}
	}
	return provider.Credential{Variable: geminiKeyVariables()[0], Missing: noGeminiKey}
}

const (
	noGeminiKey = "no key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the app's .env, " +
		"or give the model an api_key under models: in app.yaml"
	noGeminiKeyForBase = "no key for Gemini at the app's own address, which does not get the host's key: " +
		"give the model an api_key under models: in app.yaml, such as ${secret:GOOGLE_API_KEY}"
	noVertexProject = "no project for Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, " +
		"or GOOGLE_API_KEY for express mode"
)

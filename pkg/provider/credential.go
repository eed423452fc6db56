package provider

import (
	"strings"

	"agenthost/pkg/spec"
)

// A CredentialConfig is the config of a model whose calls need a key or a login.
type CredentialConfig interface{ Credential(env Env) Credential }

// A Credential describes the key of a model without its value. The zero value is that of
// a model that needs none.
type Credential struct {
	// From is where the key comes from: api_key, headers, the name of a variable, or
	// "Google credentials" for the login of the host, which is not checked.
	From string
	// Variable is the variable to set if something is missing.
	Variable string
	// Missing is why a call would fail, with the way out, or "".
	Missing string
}

const (
	fromDocument = "api_key"
	fromHeaders  = "headers"
	fromGoogle   = "Google credentials"
)

var (
	_ CredentialConfig = (*geminiConfig)(nil)
	_ CredentialConfig = (*vertexConfig)(nil)
	_ CredentialConfig = (*apigeeConfig)(nil)
	_ CredentialConfig = (*anthropicConfig)(nil)
	_ CredentialConfig = (*chatConfig)(nil)
	_ CredentialConfig = (*ollamaConfig)(nil)
)

// DescribeCredential describes the key of a model by its config: as a [CredentialConfig],
// or else by the variables of a [KeyConfig]. The config of a model that needs no key is
// neither.
func DescribeCredential(config any, env Env) Credential {
	switch c := config.(type) {
	case CredentialConfig:
		return c.Credential(env)
	case KeyConfig:
		return newVariables(env.Lookup, env.App).describeKey(c.KeyVariables(env))
	}
	return Credential{}
}

// describeKey describes a key that must be in one of the variables.
func (v variables) describeKey(names []string) Credential {
	for _, name := range names {
		if v.valueOf(name) != "" {
			return Credential{From: name}
		}
	}
	if len(names) == 0 {
		return Credential{}
	}
	return Credential{Variable: names[0], Missing: "no key: set " + strings.Join(names, " or ") + " in the environment or in the app's .env"}
}

// Credential describes the key or the login.
func (c *geminiConfig) Credential(env Env) Credential {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value}.describeCredential(env)
}

// Credential describes the login, or the key of express mode.
func (c *vertexConfig) Credential(env Env) Credential {
	if claude := c.claudeConfig(); claude != nil {
		return claude.Credential(env)
	}
	return c.geminiAccess().describeCredential(env)
}

// Credential describes the key, or the login on Vertex AI.
func (c *anthropicConfig) Credential(env Env) Credential {
	vars := newVariables(env.Lookup, env.App)
	s, err := anthropicSettings(vars, c.APIKey.Reveal(), c.BaseURL.Value, resolveVertexName(c.Model, c.Vertex.vertexOptions()))
	switch {
	case err != nil:
		return Credential{Variable: "GOOGLE_CLOUD_LOCATION", Missing: err.Error()}
	case s.vertex && s.project.value == "":
		return Credential{Variable: "GOOGLE_CLOUD_PROJECT", Missing: noAnthropicProject}
	case s.vertex:
		return Credential{From: fromGoogle}
	case s.key.value != "":
		return Credential{From: vars.sourceOf(c.APIKey.Reveal(), s.key, "ANTHROPIC_API_KEY")}
	case hasHeader(c.Headers, "X-Api-Key", "Authorization"):
		return Credential{From: fromHeaders}
	case c.BaseURL.Value != "":
		return Credential{}
	case s.base.ofApp:
		return Credential{Missing: noAnthropicKeyForBase}
	}
	return Credential{Variable: "ANTHROPIC_API_KEY", Missing: noAnthropicKey}
}

// Credential describes the key. A proxy of OpenAI's API adds it.
func (c *apigeeConfig) Credential(env Env) Credential {
	name, _ := parseApigeeName(c.Model)
	if name.provider == "openai" {
		return apigeeVendor().describeCredential(env, c.APIKey.Reveal(), c.BaseURL.Value)
	}
	return c.geminiAccess(name).describeCredential(env)
}

// Credential describes the key.
func (c *chatConfig) Credential(env Env) Credential {
	if hasHeader(c.Headers, "Authorization", "Api-Key") {
		return Credential{From: fromHeaders}
	}
	return c.vendor.describeCredential(env, c.APIKey.Reveal(), c.BaseURL.Value)
}

// Credential describes the key, which a local server does not need.
func (c *ollamaConfig) Credential(env Env) Credential {
	return ollamaVendor().describeCredential(env, c.APIKey.Reveal(), c.BaseURL.Value)
}

// hasHeader reports whether the headers of a document have one of the names.
func hasHeader(headers map[string]spec.Secret, names ...string) bool {
	for header := range headers {
		for _, name := range names {
			if strings.EqualFold(header, name) {
				return true
			}
		}
	}
	return false
}

// describeCredential describes the key of a model with a key and an address of the
// document.
func (v *vendor) describeCredential(env Env, key, base string) Credential {
	vars := newVariables(env.Lookup, env.App)
	e := v.resolveEndpoint(vars, key, base)
	switch missing := v.missingKey(e); {
	case e.problem != "":
		return Credential{Variable: firstNonEmpty(append(v.regionVariables, v.baseVariables...)...), Missing: e.problem}
	case missing != "":
		return Credential{Variable: v.keyVariables[0], Missing: missing}
	}
	return Credential{From: vars.sourceOf(key, e.key, v.keyVariables...)}
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

// sourceOf returns where a key comes from: the document, or one of the variables.
func (v variables) sourceOf(document string, key setting, names ...string) string {
	switch {
	case document != "":
		return fromDocument
	case key.value == "":
		return ""
	}
	for _, name := range names {
		if s, ok := v.lookupVar(name); ok && s == key {
			return name
		}
		if own := v.ownKey(name); own.value == key.value {
			return name
		}
	}
	return ""
}

package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strings"

	"agenthost/pkg/spec"
)

const geminiURL = "https://generativelanguage.googleapis.com/"

const (
	openAIHost = "api.openai.com"
	openAIURL  = "https://" + openAIHost + "/v1"
)

// An EndpointConfig is the config of a model that reaches a server.
type EndpointConfig interface{ Endpoint(env Env) Endpoint }

// A NameConfig is the config of a model whose kind recognizes names without its prefix,
// such as gpt-5. The config is new: nothing is decoded into it.
type NameConfig interface{ RecognizesName(name string) bool }

// A FallbackConfig is the config of a model with fallbacks, which it names.
type FallbackConfig interface{ Fallbacks() []FallbackRef }

var (
	_ EndpointConfig = (*geminiConfig)(nil)
	_ EndpointConfig = (*chatConfig)(nil)
	_ EndpointConfig = (*ollamaConfig)(nil)
	_ EndpointConfig = (*vertexConfig)(nil)
	_ EndpointConfig = (*apigeeConfig)(nil)
	_ NameConfig     = (*geminiConfig)(nil)
	_ NameConfig     = (*chatConfig)(nil)
	_ LimitedConfig  = (*geminiConfig)(nil)
	_ LimitedConfig  = (*chatConfig)(nil)
	_ LimitedConfig  = (*vertexConfig)(nil)
	_ LimitedConfig  = (*apigeeConfig)(nil)
	_ FallbackConfig = (*geminiConfig)(nil)
	_ FallbackConfig = (*vertexConfig)(nil)
	_ FallbackConfig = (*apigeeConfig)(nil)
	_ FallbackConfig = (*chatConfig)(nil)
	_ FallbackConfig = (*ollamaConfig)(nil)
	_ FallbackConfig = (*scriptedConfig)(nil)
	_ spec.Checker   = (*scriptedConfig)(nil)
)

// An Endpoint is the address of a model.
type Endpoint struct {
	URL string
	// At is the text of the document that sets it. Its position is zero if there is
	// none.
	At spec.Text
	// OfHost is set if the host or the provider chose the address and the key belongs to
	// the host. Otherwise the app chose one of the two.
	OfHost bool
	// Account is a hash of the key, for limits that models with the same key share;
	// empty without a key.
	Account string
}

// accountOf returns the hash of a key.
func accountOf(key string) string {
	if key == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// variables reads the host's environment, then the app's .env.
type variables struct {
	host func(name string) (string, bool)
	app  map[string]string
}

func newVariables(host func(name string) (string, bool), app map[string]string) variables {
	if host == nil {
		host = os.LookupEnv
	}
	return variables{host, app}
}

// A setting is a value and its owner.
type setting struct {
	value string
	ofApp bool
}

// firstSet returns the first variable that is set and not empty.
func (v variables) firstSet(names ...string) setting {
	for _, name := range names {
		if value, _ := v.lookupVar(name); value.value != "" {
			return value
		}
	}
	return setting{}
}

func (v variables) lookupVar(name string) (setting, bool) {
	if value, ok := v.host(name); ok {
		return setting{value: value}, true
	}
	value, ok := v.app[name]
	return setting{value, ok}, ok
}

func (v variables) valueOf(name string) string { return v.firstSet(name).value }

// ownKey returns the first variable that the app sets.
func (v variables) ownKey(names ...string) setting {
	return variables{func(string) (string, bool) { return "", false }, v.app}.firstSet(names...)
}

// chooseKey returns the key for an address: that of the document or of a variable. A key
// of the host is never sent to an address that the app chose.
func (v variables) chooseKey(document string, base setting, names ...string) setting {
	switch {
	case document != "":
		return setting{document, true}
	case base.ofApp:
		return v.ownKey(names...)
	}
	return v.firstSet(names...)
}

// chooseBase returns the address of the document, of the variable, or the default.
func (v variables) chooseBase(document, name, usual string) setting {
	if document != "" {
		return setting{document, true}
	}
	if s := v.firstSet(name); s.value != "" {
		return s
	}
	return setting{value: usual}
}

// location matches the names of Google's regions. The region becomes part of the host
// name, so other characters could change the host.
var location = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// vertexURL returns the address of Vertex AI in a region, like the SDK.
func vertexURL(at string) (string, error) {
	switch {
	case at == "" || at == "global":
		return "https://aiplatform.googleapis.com/", nil
	case !location.MatchString(at):
		return "", fmt.Errorf("GOOGLE_CLOUD_LOCATION must be a region such as europe-west1, got %q", at)
	case at == "us" || at == "eu":
		return "https://aiplatform." + at + ".rep.googleapis.com/", nil
	}
	return "https://" + at + "-aiplatform.googleapis.com/", nil
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
		return v.usesVertex()
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
		c.location = firstNonEmpty(v.valueOf("GOOGLE_CLOUD_LOCATION"), v.valueOf("GOOGLE_CLOUD_REGION"), "global")
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
		Account: accountOf(firstNonEmpty(c.key.value, c.project.value)),
	}
}

// usesVertex reads both switches; the newer one takes precedence if it is set.
func (v variables) usesVertex() bool {
	for _, name := range []string{"GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"} {
		if s, ok := v.lookupVar(name); ok {
			return s.value == "1" || strings.EqualFold(s.value, "true")
		}
	}
	return false
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

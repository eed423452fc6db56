package provider

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"agenthost/pkg/spec"
)

// An Endpoint is where the calls of a model go.
type Endpoint struct {
	URL string
	// At is where the document names it; without a place when it does not.
	At spec.Text
	// OfHost says that the address is the host's or the provider's own, and that
	// the key is the host's. Otherwise the app has chosen one of the two.
	OfHost bool
}

// variables are what a model reads: the host's environment, and the app's own
// .env, which counts where the host has none.
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

// A setting is a value, and whose it is.
type setting struct {
	value string
	ofApp bool
}

// firstSet returns the first of some variables that is set and not empty.
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

// ownKey returns the first of some variables that the app itself sets.
func (v variables) ownKey(names ...string) setting {
	return variables{func(string) (string, bool) { return "", false }, v.app}.firstSet(names...)
}

// chooseKey chooses the key for an address: the document's, or that of a variable. A key
// of the host's never goes to an address that the app has chosen.
func (v variables) chooseKey(document string, base setting, names ...string) setting {
	switch {
	case document != "":
		return setting{document, true}
	case base.ofApp:
		return v.ownKey(names...)
	}
	return v.firstSet(names...)
}

// chooseBase chooses the address: the document's, the variable's, or the provider's own.
func (v variables) chooseBase(document, name, usual string) setting {
	if document != "" {
		return setting{document, true}
	}
	if s := v.firstSet(name); s.value != "" {
		return s
	}
	return setting{value: usual}
}

// location is how Google names its regions; anything else could lead to another
// host, since it becomes a part of the address.
var location = regexp.MustCompile(`^[a-z0-9-]{1,63}$`)

// vertexURL is the address of Vertex AI in a location, as the SDK has it.
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

// Endpoint is where the model's calls go.
func (c *geminiConfig) Endpoint(env Env) Endpoint {
	s, err := geminiSettings(newVariables(env.Lookup, env.App), c.APIKey.Reveal(), c.BaseURL.Value)
	if err != nil {
		return Endpoint{OfHost: true} // the first call reports it
	}
	return Endpoint{URL: s.base.value, At: c.BaseURL, OfHost: !s.base.ofApp && !s.key.ofApp && !s.project.ofApp}
}

// Endpoint is where the model's calls go.
func (c *openAIConfig) Endpoint(env Env) Endpoint {
	base, key := openAISettings(newVariables(env.Lookup, env.App), c.APIKey.Reveal(), c.BaseURL.Value)
	return Endpoint{URL: base.value, At: c.BaseURL, OfHost: !base.ofApp && !key.ofApp}
}

// openAISettings are the address and the key of a server. One that the document
// names gets no key but the document's.
func openAISettings(v variables, key, base string) (at, with setting) {
	at = v.chooseBase(strings.TrimSuffix(base, "/"), "OPENAI_BASE_URL", openAIURL)
	at.value = strings.TrimSuffix(at.value, "/")
	if base != "" {
		return at, setting{key, true}
	}
	return at, v.chooseKey(key, at, "OPENAI_API_KEY")
}

// A geminiChoice is how a Gemini model is reached.
type geminiChoice struct {
	vertex             bool
	base, key, project setting
	location           string
}

// geminiSettings chooses the backend, the address and the credentials: on Vertex
// AI, as the SDK does, a key of the document's, then the project, then the
// environment's key. A base URL alone is a proxy that knows the rest.
func geminiSettings(v variables, key, base string) (geminiChoice, error) {
	keys := []string{"GOOGLE_API_KEY", "GEMINI_API_KEY"}
	if !v.usesVertex() {
		at := v.chooseBase(base, "GOOGLE_GEMINI_BASE_URL", geminiURL)
		return geminiChoice{base: at, key: v.chooseKey(key, at, keys...)}, nil
	}
	c := geminiChoice{vertex: true, base: v.chooseBase(base, "GOOGLE_VERTEX_BASE_URL", "")}
	if key != "" {
		c.key = setting{key, true}
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

// usesVertex reads the two switches; the newer one wins when it is set at all.
func (v variables) usesVertex() bool {
	for _, name := range []string{"GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"} {
		if s, ok := v.lookupVar(name); ok {
			return s.value == "1" || strings.EqualFold(s.value, "true")
		}
	}
	return false
}

package provider

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"agenthost/internal/baseurl"
	"agenthost/pkg/model"
)

const (
	anthropicURL     = "https://api.anthropic.com"
	anthropicVersion = "2023-06-01"
	vertexVersion    = "vertex-2023-10-16"

	noAnthropicKey = "no key for Anthropic: set ANTHROPIC_API_KEY in the environment or in the app's .env, " +
		"or give the model an api_key or a base_url under models: in app.yaml"
	noAnthropicKeyForBase = "no key for Anthropic at the app's own address, which does not get the host's key: " +
		"give the model an api_key under models: in app.yaml, such as ${secret:ANTHROPIC_API_KEY}"
	noAnthropicProject = "no project for Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, " +
		"or give the model vertex: {project: P, location: L} under models: in app.yaml"
)

// resolveVertexName returns the settings of a full name, or v.
func resolveVertexName(name string, v *AnthropicVertex) *AnthropicVertex {
	m := vertexName.FindStringSubmatch(name)
	if m == nil {
		return v
	}
	full := AnthropicVertex{Project: m[1], Location: m[2]}
	if v != nil {
		full.Token = v.Token
	}
	return &full
}

// An anthropicChoice is the address and the credentials of a model.
type anthropicChoice struct {
	base, key setting
	// project and location are set on Vertex AI.
	vertex   bool
	project  setting
	location string
}

// anthropicSettings chooses the address and the credentials. An address of the document
// gets only the document's key.
func anthropicSettings(v variables, key, base string, vertex *AnthropicVertex) (anthropicChoice, error) {
	if vertex == nil {
		c := anthropicChoice{base: v.chooseBase(base, "ANTHROPIC_BASE_URL", anthropicURL)}
		if base != "" {
			c.key = setting{key, true}
		} else {
			c.key = v.chooseKey(key, c.base, "ANTHROPIC_API_KEY")
		}
		c.base.value = baseurl.TrimPath(c.base.value, "/v1")
		return c, nil
	}
	c := anthropicChoice{vertex: true, base: v.chooseBase(base, "ANTHROPIC_VERTEX_BASE_URL", "")}
	c.project = v.firstSet("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")
	if vertex.Project != "" {
		c.project = setting{vertex.Project, true}
	}
	c.location = cmp.Or(vertex.Location, v.valueOf("GOOGLE_CLOUD_LOCATION"), v.valueOf("CLOUD_ML_REGION"), "global")
	if c.base.value != "" {
		c.base.value = baseurl.TrimPath(c.base.value, "/v1")
		return c, nil
	}
	usual, err := vertexURL(c.location)
	c.base.value = strings.TrimSuffix(usual, "/")
	return c, err
}

func (a *anthropic) endpointSettings() (anthropicChoice, error) {
	return anthropicSettings(newVariables(a.opts.Lookup, a.opts.App), a.opts.APIKey, a.opts.BaseURL, a.opts.Vertex)
}

// An anthropicEndpoint is where to send a call.
type anthropicEndpoint struct {
	url     string
	header  http.Header
	secrets []string
}

func (a *anthropic) findEndpoint(ctx context.Context, c *anthropicCall) (*anthropicEndpoint, error) {
	s, err := a.endpointSettings()
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, err.Error())
	}
	if s.vertex {
		return a.findVertexEndpoint(ctx, s, c)
	}
	at := &anthropicEndpoint{url: baseurl.Join(s.base.value, "/v1/messages"), header: http.Header{}, secrets: []string{s.key.value}}
	at.header.Set("Anthropic-Version", anthropicVersion)
	switch {
	case s.key.value != "":
		at.header.Set("X-Api-Key", s.key.value)
	case a.hasKeyInHeader() || a.opts.BaseURL != "":
	case s.base.ofApp:
		return nil, newConfigError(http.StatusUnauthorized, noAnthropicKeyForBase)
	default:
		return nil, newConfigError(http.StatusUnauthorized, noAnthropicKey)
	}
	return at, nil
}

func (a *anthropic) hasKeyInHeader() bool {
	return a.opts.Header.Get("X-Api-Key") != "" || a.opts.Header.Get("Authorization") != ""
}

func (a *anthropic) findVertexEndpoint(ctx context.Context, s anthropicChoice, c *anthropicCall) (*anthropicEndpoint, error) {
	if s.project.value == "" {
		return nil, newConfigError(http.StatusUnauthorized, noAnthropicProject)
	}
	method := "rawPredict"
	if c.body["stream"] == true {
		method = "streamRawPredict"
	}
	at := &anthropicEndpoint{header: http.Header{}}
	at.url = baseurl.Join(s.base.value, fmt.Sprintf("/v1/projects/%s/locations/%s/publishers/anthropic/models/%s:%s",
		url.PathEscape(s.project.value), url.PathEscape(s.location), url.PathEscape(bareModelName(c.model)), method))
	token, err := a.readToken(ctx, s)
	if err != nil {
		return nil, err
	}
	if token != "" {
		at.header.Set("Authorization", "Bearer "+token)
		at.secrets = []string{token}
	}
	if quota := a.quotaProject(); quota != "" {
		at.header.Set("X-Goog-User-Project", quota)
	}
	return at, nil
}

// readToken returns the token of a call on Vertex AI. With a base URL it may be empty: a
// proxy adds its own. An address that the app chose gets no token of the host.
func (a *anthropic) readToken(ctx context.Context, s anthropicChoice) (string, error) {
	token := a.opts.Vertex.Token
	if token == nil && s.base.ofApp {
		return "", nil
	}
	if token == nil {
		found, err := a.detectCredentials(ctx)
		switch {
		case err == nil:
			token = found
		case a.opts.BaseURL != "" || newVariables(a.opts.Lookup, a.opts.App).valueOf("ANTHROPIC_VERTEX_BASE_URL") != "":
			return "", nil
		default:
			return "", newConfigError(http.StatusUnauthorized, noVertexLogin+": "+err.Error())
		}
	}
	value, err := token(ctx)
	if err != nil {
		return "", &model.Error{Message: "no token for Vertex AI: " + err.Error(), Err: err}
	}
	return value, nil
}

// detectCredentials finds Google's default credentials on the first call. After a
// failure, the next call tries again.
func (a *anthropic) detectCredentials(ctx context.Context) (func(context.Context) (string, error), error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token != nil {
		return a.token, nil
	}
	token, quota, err := detectGoogleCredentials(ctx)
	a.token, a.quota = token, quota
	return token, err
}

func (a *anthropic) quotaProject() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.quota
}

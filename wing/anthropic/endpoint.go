package anthropic

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"agenthost/internal/baseurl"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
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

// resolveVertexName returns a full name's settings, or v.
func resolveVertexName(name string, v *Vertex) *Vertex {
	m := modelapi.VertexName.FindStringSubmatch(name)
	if m == nil {
		return v
	}
	full := Vertex{Project: m[1], Location: m[2]}
	if v != nil {
		full.Token = v.Token
	}
	return &full
}

// An anthropicChoice is a model's address and credentials.
type anthropicChoice struct {
	base, key modelapi.Setting
	// project and location are set on Vertex AI.
	vertex   bool
	project  modelapi.Setting
	location string
}

// anthropicSettings chooses the address and the credentials. An address in the document gets only
// the document's key.
func anthropicSettings(v modelapi.Variables, key, base string, vertex *Vertex) (anthropicChoice, error) {
	if vertex == nil {
		c := anthropicChoice{base: v.ChooseBase(base, "ANTHROPIC_BASE_URL", anthropicURL)}
		if base != "" {
			c.key = modelapi.Setting{Value: key, OfApp: true}
		} else {
			c.key = v.ChooseKey(key, c.base, "ANTHROPIC_API_KEY")
		}
		c.base.Value = baseurl.TrimPath(c.base.Value, "/v1")
		return c, nil
	}
	c := anthropicChoice{vertex: true, base: v.ChooseBase(base, "ANTHROPIC_VERTEX_BASE_URL", "")}
	c.project = v.FirstSet("GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID")
	if vertex.Project != "" {
		c.project = modelapi.Setting{Value: vertex.Project, OfApp: true}
	}
	c.location = cmp.Or(vertex.Location, v.ValueOf("GOOGLE_CLOUD_LOCATION"), v.ValueOf("CLOUD_ML_REGION"), "global")
	if c.base.Value != "" {
		c.base.Value = baseurl.TrimPath(c.base.Value, "/v1")
		return c, nil
	}
	usual, err := modelapi.VertexURL(c.location)
	c.base.Value = strings.TrimSuffix(usual, "/")
	return c, err
}

// An anthropicEndpoint is where to send a call.
type anthropicEndpoint struct {
	url     string
	header  http.Header
	secrets []string
}

func (a *anthropic) findEndpoint(ctx context.Context, c *anthropicCall) (*anthropicEndpoint, error) {
	s, err := anthropicSettings(modelapi.NewVariables(a.opts.Lookup, a.opts.App), a.opts.APIKey, a.opts.BaseURL, a.opts.Vertex)
	if err != nil {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, err.Error())
	}
	if s.vertex {
		return a.findVertexEndpoint(ctx, s, c)
	}
	at := &anthropicEndpoint{url: baseurl.Join(s.base.Value, "/v1/messages"), header: http.Header{}, secrets: []string{s.key.Value}}
	at.header.Set("Anthropic-Version", anthropicVersion)
	switch {
	case s.key.Value != "":
		at.header.Set("X-Api-Key", s.key.Value)
	case a.hasKeyInHeader() || a.opts.BaseURL != "":
	case s.base.OfApp:
		return nil, modelcall.NewConfigError(http.StatusUnauthorized, noAnthropicKeyForBase)
	default:
		return nil, modelcall.NewConfigError(http.StatusUnauthorized, noAnthropicKey)
	}
	return at, nil
}

func (a *anthropic) hasKeyInHeader() bool {
	return a.opts.Header.Get("X-Api-Key") != "" || a.opts.Header.Get("Authorization") != ""
}

func (a *anthropic) findVertexEndpoint(ctx context.Context, s anthropicChoice, c *anthropicCall) (*anthropicEndpoint, error) {
	if s.project.Value == "" {
		return nil, modelcall.NewConfigError(http.StatusUnauthorized, noAnthropicProject)
	}
	method := "rawPredict"
	if c.body["stream"] == true {
		method = "streamRawPredict"
	}
	at := &anthropicEndpoint{header: http.Header{}}
	at.url = baseurl.Join(s.base.Value, fmt.Sprintf("/v1/projects/%s/locations/%s/publishers/anthropic/models/%s:%s",
		url.PathEscape(s.project.Value), url.PathEscape(s.location), url.PathEscape(modelapi.BareModelName(c.model)), method))
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

// readToken returns the token for a call on Vertex AI. With a base URL it may be empty: a proxy
// adds its own. An address that the app chose does not get the host's token.
func (a *anthropic) readToken(ctx context.Context, s anthropicChoice) (string, error) {
	token := a.opts.Vertex.Token
	if token == nil && s.base.OfApp {
		return "", nil
	}
	if token == nil {
		found, err := a.detectCredentials(ctx)
		switch {
		case err == nil:
			token = found
		case a.opts.BaseURL != "" || modelapi.NewVariables(a.opts.Lookup, a.opts.App).ValueOf("ANTHROPIC_VERTEX_BASE_URL") != "":
			return "", nil
		default:
			return "", modelcall.NewConfigError(http.StatusUnauthorized, modelapi.NoVertexLogin+": "+err.Error())
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
	token, quota, err := modelapi.DetectGoogleCredentials(ctx)
	a.token, a.quota = token, quota
	return token, err
}

func (a *anthropic) quotaProject() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.quota
}

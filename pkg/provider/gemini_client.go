package provider

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"cloud.google.com/go/auth/credentials"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

const (
	geminiURL   = "https://generativelanguage.googleapis.com/"
	cloudScope  = "https://www.googleapis.com/auth/cloud-platform"
	noGeminiKey = "no key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the app's .env, " +
		"or give the model an api_key under models: in app.yaml"
	noVertexProject = "no project for Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, " +
		"or GOOGLE_API_KEY for express mode"
	noVertexLogin = "no credentials for Vertex AI: set GOOGLE_APPLICATION_CREDENTIALS for the host, " +
		"or run gcloud auth application-default login"
)

// newClient makes the SDK's client. Everything that the SDK would read from the
// process's environment is given to it, so that the app's .env counts as well.
func (g *gemini) newClient(ctx context.Context) (*genai.Client, error) {
	config, err := g.clientConfig()
	if err != nil {
		return nil, err
	}
	wire := &geminiTransport{base: g.opts.HTTP.Transport, hide: spec.NewVeil(config.APIKey)}
	if err := g.authorize(ctx, config, wire); err != nil {
		return nil, err
	}
	client := *g.opts.HTTP
	client.Transport = wire
	config.HTTPClient = &client
	made, err := genai.NewClient(ctx, config)
	if err != nil {
		// The cause is not kept: the SDK prints its config, with the key.
		return nil, unusable(http.StatusBadRequest, spec.NewVeil(config.APIKey).Text(err.Error()))
	}
	return made, nil
}

func (g *gemini) clientConfig() (*genai.ClientConfig, error) {
	config, err := g.backendConfig()
	if err != nil {
		return nil, err
	}
	if base := config.HTTPOptions.BaseURL; base != "" {
		if problem := badBaseURL(base); problem != "" {
			return nil, unusable(http.StatusBadRequest, problem)
		}
	}
	return config, nil
}

func (g *gemini) backendConfig() (*genai.ClientConfig, error) {
	if g.usesVertex() {
		return g.vertexConfig()
	}
	key := first(g.opts.APIKey, g.env("GOOGLE_API_KEY"), g.env("GEMINI_API_KEY"))
	if key == "" {
		return nil, unusable(http.StatusUnauthorized, noGeminiKey)
	}
	return &genai.ClientConfig{
		Backend: genai.BackendGeminiAPI, APIKey: key,
		HTTPOptions: genai.HTTPOptions{BaseURL: first(g.opts.BaseURL, g.env("GOOGLE_GEMINI_BASE_URL"), geminiURL)},
	}, nil
}

// vertexConfig chooses as the SDK does: a key given here, then the project, then
// the environment's key. A base URL alone is a proxy that knows the rest.
func (g *gemini) vertexConfig() (*genai.ClientConfig, error) {
	config := &genai.ClientConfig{Backend: genai.BackendVertexAI, APIKey: g.opts.APIKey}
	config.HTTPOptions.BaseURL = first(g.opts.BaseURL, g.env("GOOGLE_VERTEX_BASE_URL"))
	if config.APIKey != "" {
		return config, nil
	}
	if project := g.env("GOOGLE_CLOUD_PROJECT"); project != "" {
		config.Project = project
		config.Location = first(g.env("GOOGLE_CLOUD_LOCATION"), g.env("GOOGLE_CLOUD_REGION"), "global")
		return config, nil
	}
	config.APIKey = first(g.env("GOOGLE_API_KEY"), g.env("GEMINI_API_KEY"))
	if config.APIKey == "" && config.HTTPOptions.BaseURL == "" {
		return nil, unusable(http.StatusUnauthorized, noVertexProject)
	}
	return config, nil
}

// authorize gives the transport the token of a Vertex project. Behind a base URL
// it may be missing: the proxy there adds its own.
func (g *gemini) authorize(ctx context.Context, config *genai.ClientConfig, wire *geminiTransport) error {
	if config.Project == "" {
		return nil
	}
	if g.opts.Token != nil {
		wire.token = g.opts.Token
		return nil
	}
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{cloudScope}})
	if err != nil {
		if config.HTTPOptions.BaseURL != "" {
			return nil
		}
		return unusable(http.StatusUnauthorized, noVertexLogin+": "+err.Error())
	}
	if quota, err := found.QuotaProjectID(ctx); err == nil && quota != "" {
		config.HTTPOptions.Headers = http.Header{"X-Goog-User-Project": {quota}}
	}
	wire.token = func(ctx context.Context) (string, error) {
		token, err := found.Token(ctx)
		if err != nil {
			return "", err
		}
		return token.Value, nil
	}
	return nil
}

// usesVertex reads the two switches; the newer one wins when it is set at all.
func (g *gemini) usesVertex() bool {
	for _, name := range []string{"GOOGLE_GENAI_USE_ENTERPRISE", "GOOGLE_GENAI_USE_VERTEXAI"} {
		if v, ok := g.opts.Lookup(name); ok {
			return v == "1" || strings.EqualFold(v, "true")
		}
	}
	return false
}

func (g *gemini) env(name string) string {
	v, _ := g.opts.Lookup(name)
	return v
}

// unusable is a call that cannot be made as things are set: asking again would
// not help, so it has the status that the service would answer with.
func unusable(code int, message string) *model.Error {
	return &model.Error{Code: code, Status: statusWord(code), Message: message}
}

// badBaseURL says what is wrong with a base URL, or nothing.
func badBaseURL(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "base_url must be an address such as https://example.com"
	}
	return ""
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

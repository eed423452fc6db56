package provider

import (
	"context"
	"net/http"
	"net/url"

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
	noGeminiKeyForBase = "no key for Gemini at the app's own address, which does not get the host's key: " +
		"give the model an api_key under models: in app.yaml, such as ${secret:GOOGLE_API_KEY}"
	noVertexProject = "no project for Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, " +
		"or GOOGLE_API_KEY for express mode"
	noVertexLogin = "no credentials for Vertex AI: set GOOGLE_APPLICATION_CREDENTIALS for the host, " +
		"or run gcloud auth application-default login"
)

// newClient creates the SDK's client. It passes all settings explicitly, so that the
// app's .env applies as well and the SDK reads no environment variables.
func (g *gemini) newClient(ctx context.Context) (*genai.Client, error) {
	config, err := g.clientConfig()
	if err != nil {
		return nil, err
	}
	wire := &geminiTransport{base: g.opts.HTTP.Transport, redactor: spec.NewRedactor(config.APIKey)}
	if err := g.addCredentials(ctx, config, wire); err != nil {
		return nil, err
	}
	client := *g.opts.HTTP
	client.Transport = wire
	config.HTTPClient = &client
	made, err := genai.NewClient(ctx, config)
	if err != nil {
		// Do not wrap the cause: the SDK prints its config with the key.
		return nil, newConfigError(http.StatusBadRequest, spec.NewRedactor(config.APIKey).RedactString(err.Error()))
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
			return nil, newConfigError(http.StatusBadRequest, problem)
		}
	}
	return config, nil
}

func (g *gemini) backendConfig() (*genai.ClientConfig, error) {
	c, err := geminiSettings(g.newVariables(), g.opts.APIKey, g.opts.BaseURL)
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, err.Error())
	}
	config := &genai.ClientConfig{Backend: genai.BackendGeminiAPI, APIKey: c.key.value, HTTPOptions: genai.HTTPOptions{BaseURL: c.base.value}}
	switch {
	case !c.vertex && c.key.value == "" && c.base.ofApp:
		return nil, newConfigError(http.StatusUnauthorized, noGeminiKeyForBase)
	case !c.vertex && c.key.value == "":
		return nil, newConfigError(http.StatusUnauthorized, noGeminiKey)
	case !c.vertex:
		return config, nil
	}
	config.Backend, config.Project, config.Location = genai.BackendVertexAI, c.project.value, c.location
	if !g.usesDefaultBase() {
		return config, nil
	}
	if config.Project == "" && config.APIKey == "" {
		return nil, newConfigError(http.StatusUnauthorized, noVertexProject)
	}
	config.HTTPOptions.BaseURL = "" // the SDK's own
	return config, nil
}

// usesDefaultBase reports whether no base URL is set.
func (g *gemini) usesDefaultBase() bool {
	return g.opts.BaseURL == "" && g.newVariables().valueOf("GOOGLE_VERTEX_BASE_URL") == ""
}

func (g *gemini) newVariables() variables { return newVariables(g.opts.Lookup, g.opts.App) }

// addCredentials adds the token of a Vertex project to the transport. With a base URL,
// the token may be missing: a proxy adds its own. An address that the app chose gets no
// token of the host.
func (g *gemini) addCredentials(ctx context.Context, config *genai.ClientConfig, wire *geminiTransport) error {
	if config.Project == "" {
		return nil
	}
	if g.opts.Token != nil {
		wire.token = g.opts.Token
		return nil
	}
	if base := g.newVariables().chooseBase(g.opts.BaseURL, "GOOGLE_VERTEX_BASE_URL", ""); base.ofApp {
		return nil
	}
	found, err := credentials.DetectDefault(&credentials.DetectOptions{Scopes: []string{cloudScope}})
	if err != nil {
		if !g.usesDefaultBase() {
			return nil
		}
		return newConfigError(http.StatusUnauthorized, noVertexLogin+": "+err.Error())
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

// newConfigError returns an error of the configuration. Retries cannot fix it, so it has
// the status that the service would return.
func newConfigError(code int, message string) *model.Error {
	return &model.Error{Code: code, Status: statusWord(code), Message: message}
}

// badBaseURL returns the problem of a base URL, or "".
func badBaseURL(base string) string {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return "base_url must be a URL such as https://example.com"
	}
	return ""
}

func firstNonEmpty(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

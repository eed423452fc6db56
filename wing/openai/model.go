package openai

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"agenthost/internal/baseurl"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// Options configure a server with OpenAI's chat completions API. The zero value is OpenAI itself
// with the key from the process environment.
type Options struct {
	// Lookup reads a host environment variable; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the app's own variables, used if Lookup has none. An address in App never gets the
	// host's key.
	App map[string]string
	// BaseURL is the URL without /chat/completions; the default is OPENAI_BASE_URL, or
	// OpenAI.
	BaseURL string
	// APIKey is the bearer token; the default is OPENAI_API_KEY, unless BaseURL is set: an address
	// in the document does not get that key.
	APIKey string
	// Header is sent with each call.
	Header http.Header
	// API is chat or responses; empty is responses for reasoning models at OpenAI's own
	// address, else chat.
	API string
	// Thoughts are the model's own thoughts that are sent back: drop, tools (the current turn's) or
	// always; empty sends back the signed ones from the current turn or, by the Responses API, from
	// all turns.
	Thoughts string
	// HTTP is the client; nil is [http.DefaultClient]. Redirects are errors.
	HTTP *http.Client
	// Timeouts limit how long the server may be silent.
	Timeouts provider.TimeoutOptions
	// Retry configures retries.
	Retry provider.RetryOptions
	// Logger logs unsupported settings; nil discards logs.
	Logger *slog.Logger
}

// New returns a model on a server with OpenAI's chat completions API. It reads the
// environment on each call. opts may be nil.
func New(name string, opts *Options) model.LLM {
	return newChat(compatibleVendor(), name, opts)
}

// newChat returns a vendor's model. opts may be nil.
func newChat(v *chatVendor, name string, opts *Options) model.LLM {
	o := &openAI{name: name, vendor: v}
	if opts != nil {
		o.opts = *opts
	}
	o.service = modelapi.NewService(name, o.opts.HTTP, o.opts.Timeouts)
	if o.opts.Logger == nil {
		o.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return provider.Retry(o, &o.opts.Retry)
}

type openAI struct {
	name    string
	vendor  *chatVendor
	opts    Options
	service *modelapi.Service
}

var _ model.SchemaMixer = (*openAI)(nil)

func (o *openAI) Name() string { return o.name }

// MixesToolsAndSchema reports whether one request may have both tools and a response
// schema: OpenAI supports that; for other servers it is unknown.
func (o *openAI) MixesToolsAndSchema() bool { return o.isOpenAI() }

func (o *openAI) resolveEndpoint() modelapi.VendorEndpoint {
	return o.vendor.ResolveEndpoint(modelapi.NewVariables(o.opts.Lookup, o.opts.App), o.opts.APIKey, o.opts.BaseURL)
}

// isOpenAI reports whether the server is OpenAI or Azure OpenAI, which use newer names
// for some settings than compatible servers.
func (o *openAI) isOpenAI() bool {
	if o.vendor.openAI {
		return true
	}
	u, err := url.Parse(o.resolveEndpoint().Base.Value)
	return err == nil && (u.Hostname() == openAIHost || strings.HasSuffix(u.Hostname(), ".openai.azure.com"))
}

// sendBody sends a request to one of the service's paths.
func (o *openAI) sendBody(ctx context.Context, req *model.Request, path string, body map[string]any) (*modelapi.Response, error) {
	at := o.resolveEndpoint()
	if at.Problem != "" {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, at.Problem)
	}
	call := &modelapi.Request{Url: baseurl.Join(at.Base.Value, path), Header: http.Header{}, Body: body, Secrets: []string{at.Key.Value}, MaxCalls: req.MaxCalls}
	switch {
	case at.Key.Value == "":
	case o.vendor.KeyHeader != "":
		call.Header.Set(o.vendor.KeyHeader, at.Key.Value)
	default:
		call.Header.Set("Authorization", "Bearer "+at.Key.Value)
	}
	for name, values := range o.opts.Header {
		call.Header[http.CanonicalHeaderKey(name)] = values
		call.Secrets = append(call.Secrets, values...)
	}
	if req.Config != nil {
		call.AddOptions(req.Config.HTTPOptions)
	}
	if call.Header.Get("Authorization") == "" && call.Header.Get("Api-Key") == "" {
		if missing := o.vendor.MissingKey(at); missing != "" {
			return nil, modelcall.NewConfigError(http.StatusUnauthorized, missing)
		}
	}
	return o.service.PostJSON(ctx, call)
}

// newTarget returns what is known about a call's model.
func (o *openAI) newTarget(name string) *chatTarget {
	t := &chatTarget{chatDialect: o.vendor.chat, vendor: o.vendor.Prefix, model: name, openAI: o.isOpenAI()}
	if t.openAI {
		t.assumeOpenAI()
	}
	if u, err := url.Parse(o.resolveEndpoint().Base.Value); err == nil {
		t.google = strings.HasSuffix(u.Hostname(), ".googleapis.com")
	}
	lower := strings.ToLower(name)
	switch {
	case t.google:
		t.effort, t.gemini = effortGoogle, true
	case o.vendor.Prefix == compatiblePrefix && !t.openAI:
		t.topK = true
		t.gemini = strings.Contains(lower, "gemini")
		if strings.HasPrefix(lower, "gemini/") || strings.HasPrefix(lower, "vertex_ai/gemini") {
			t.format, t.video = formatLiteLLM, true
		}
	}
	if o.opts.Thoughts != "" {
		t.thoughts = o.opts.Thoughts
	}
	return t
}

package provider

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"agenthost/internal/baseurl"
	"agenthost/pkg/model"
)

// OpenAIOptions configure a server with OpenAI's chat completions API. The zero value is
// OpenAI itself with the key of the process's environment.
type OpenAIOptions struct {
	// Lookup reads a variable of the host's environment; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the app's own variables, used if Lookup has none. An address in App
	// never gets a key of the host.
	App map[string]string
	// BaseURL is the URL without /chat/completions; the default is OPENAI_BASE_URL, or
	// OpenAI.
	BaseURL string
	// APIKey is the bearer token; the default is OPENAI_API_KEY, unless BaseURL is set:
	// an address of the document does not get that key.
	APIKey string
	// Header is sent with each call.
	Header http.Header
	// API is chat or responses; empty is responses for reasoning models at OpenAI's own
	// address, else chat.
	API string
	// Thoughts are the model's own thoughts that are sent back: drop, tools (those of the
	// current turn) or always; empty sends back the signed ones of the current turn or, by
	// the Responses API, of all turns.
	Thoughts string
	// HTTP is the client; nil is [http.DefaultClient]. Redirects are errors.
	HTTP *http.Client
	// Timeouts limit the silence of the server.
	Timeouts TimeoutOptions
	// Retry configures retries.
	Retry RetryOptions
	// Logger logs unsupported settings; nil discards logs.
	Logger *slog.Logger
}

// NewOpenAI returns a model on a server with OpenAI's chat completions API. It reads the
// environment on each call. opts may be nil.
func NewOpenAI(name string, opts *OpenAIOptions) model.LLM {
	return newChat(compatibleVendor(), name, opts)
}

// newChat returns a model of a vendor. opts may be nil.
func newChat(v *chatVendor, name string, opts *OpenAIOptions) model.LLM {
	o := &openAI{name: name, vendor: v}
	if opts != nil {
		o.opts = *opts
	}
	o.service = newService(name, o.opts.HTTP, o.opts.Timeouts)
	if o.opts.Logger == nil {
		o.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return Retry(o, &o.opts.Retry)
}

type openAI struct {
	name    string
	vendor  *chatVendor
	opts    OpenAIOptions
	service *service
}

var _ model.SchemaMixer = (*openAI)(nil)

func (o *openAI) Name() string { return o.name }

// MixesToolsAndSchema reports whether one request may have both tools and a response
// schema: OpenAI supports that; for other servers it is unknown.
func (o *openAI) MixesToolsAndSchema() bool { return o.isOpenAI() }

func (o *openAI) resolveEndpoint() vendorEndpoint {
	return o.vendor.resolveEndpoint(newVariables(o.opts.Lookup, o.opts.App), o.opts.APIKey, o.opts.BaseURL)
}

// isOpenAI reports whether the server is OpenAI or Azure OpenAI, which use newer names
// for some settings than compatible servers.
func (o *openAI) isOpenAI() bool {
	if o.vendor.openAI {
		return true
	}
	u, err := url.Parse(o.resolveEndpoint().base.value)
	return err == nil && (u.Hostname() == openAIHost || strings.HasSuffix(u.Hostname(), ".openai.azure.com"))
}

// Generate calls the model once; see [model.LLM].
func (o *openAI) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		target := o.newTarget(cmp.Or(req.Model, o.name))
		if o.usesResponses(target.model) {
			legal := newLegalRequest(ctx, &responsesRules, target.vendor, req)
			o.generateResponses(ctx, legal.Request, legal.restoreCalls(yield))
			return
		}
		legal := newLegalRequest(ctx, target.requestRules(), target.vendor, req)
		req, yield := legal.Request, legal.restoreCalls(yield)
		resp, err := o.sendRequest(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		defer resp.closeBody()
		if !resp.isStream(req.Stream) {
			yield(readChatResponse(resp, target))
			return
		}
		if streamChat(resp, target, forwardChunks(req.Stream, yield)) {
			resp.drainBody()
		}
	}
}

func (o *openAI) sendRequest(ctx context.Context, req *model.Request) (*serviceResponse, error) {
	body, err := o.encodeRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	return o.sendBody(ctx, req, "/chat/completions", body)
}

// sendBody sends a request to a path of the service.
func (o *openAI) sendBody(ctx context.Context, req *model.Request, path string, body map[string]any) (*serviceResponse, error) {
	at := o.resolveEndpoint()
	if at.problem != "" {
		return nil, newConfigError(http.StatusBadRequest, at.problem)
	}
	call := &serviceRequest{url: baseurl.Join(at.base.value, path), header: http.Header{}, body: body, secrets: []string{at.key.value}, maxCalls: req.MaxCalls}
	switch {
	case at.key.value == "":
	case o.vendor.keyHeader != "":
		call.header.Set(o.vendor.keyHeader, at.key.value)
	default:
		call.header.Set("Authorization", "Bearer "+at.key.value)
	}
	for name, values := range o.opts.Header {
		call.header[http.CanonicalHeaderKey(name)] = values
		call.secrets = append(call.secrets, values...)
	}
	if req.Config != nil {
		call.addOptions(req.Config.HTTPOptions)
	}
	if call.header.Get("Authorization") == "" && call.header.Get("Api-Key") == "" {
		if missing := o.vendor.missingKey(at); missing != "" {
			return nil, newConfigError(http.StatusUnauthorized, missing)
		}
	}
	return o.service.postJSON(ctx, call)
}

package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

const (
	noOpenAIKey = "no key for OpenAI: set OPENAI_API_KEY in the environment or in the app's .env, " +
		"or give the model an api_key or a base_url under models: in app.yaml"
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
	// HTTP is the client; nil is [http.DefaultClient]. Redirects are errors.
	HTTP *http.Client
	// Retry configures retries.
	Retry RetryOptions
	// Logger logs unsupported settings; nil discards logs.
	Logger *slog.Logger
}

// NewOpenAI returns a model on a server with OpenAI's chat completions API. It reads the
// environment on each call. opts may be nil.
func NewOpenAI(name string, opts *OpenAIOptions) model.LLM {
	o := &openAI{name: name}
	if opts != nil {
		o.opts = *opts
	}
	if o.opts.HTTP == nil {
		o.opts.HTTP = http.DefaultClient
	}
	if o.opts.Logger == nil {
		o.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return Retry(o, &o.opts.Retry)
}

type openAI struct {
	name string
	opts OpenAIOptions
}

var _ schemaMixer = (*openAI)(nil)

func (o *openAI) Name() string { return o.name }

// MixesToolsAndSchema reports whether one request may have both tools and a response
// schema: OpenAI supports that; for other servers it is unknown.
func (o *openAI) MixesToolsAndSchema() bool { return o.isOpenAI() }

func (o *openAI) endpointSettings() (base, key setting) {
	return openAISettings(newVariables(o.opts.Lookup, o.opts.App), o.opts.APIKey, o.opts.BaseURL)
}

func (o *openAI) baseURL() string {
	base, _ := o.endpointSettings()
	return base.value
}

func (o *openAI) apiKey() string {
	_, key := o.endpointSettings()
	return key.value
}

// isOpenAI reports whether the server is OpenAI or Azure OpenAI, which use newer names
// for some settings than compatible servers.
func (o *openAI) isOpenAI() bool {
	u, err := url.Parse(o.baseURL())
	return err == nil && (u.Hostname() == "api.openai.com" || strings.HasSuffix(u.Hostname(), ".openai.azure.com"))
}

// Generate calls the model once; see [model.LLM].
func (o *openAI) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := o.sendRequest(ctx, req)
		if err != nil {
			yield(nil, o.toModelError(ctx, err))
			return
		}
		defer resp.Body.Close()
		if req.Stream {
			if o.streamResponse(ctx, resp.Body, yield) {
				drainBody(resp.Body, cancel)
			}
			return
		}
		yield(o.readResponse(ctx, resp.Body))
	}
}

// drainBody reads the rest of a stream for at most a second: only a drained connection
// is reused.
func drainBody(body io.Reader, cancel func()) {
	defer time.AfterFunc(time.Second, cancel).Stop()
	_, _ = io.CopyN(io.Discard, body, 4<<10)
}

// sendRequest sends the request. Any status other than 2xx is an error.
func (o *openAI) sendRequest(ctx context.Context, req *model.Request) (*http.Response, error) {
	body, err := o.encodeRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	if problem := badBaseURL(o.baseURL()); problem != "" {
		return nil, newConfigError(http.StatusBadRequest, problem)
	}
	call, err := http.NewRequestWithContext(ctx, http.MethodPost, o.baseURL()+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, "base_url is not a valid URL")
	}
	o.setHeaders(call.Header, req)
	if o.isOpenAI() && call.Header.Get("Authorization") == "" && call.Header.Get("Api-Key") == "" {
		return nil, newConfigError(http.StatusUnauthorized, noOpenAIKey)
	}
	client := *o.opts.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(call)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		defer resp.Body.Close()
		return nil, o.errorFromResponse(resp)
	}
	return resp, nil
}

func (o *openAI) setHeaders(h http.Header, req *model.Request) {
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "agenthost")
	if key := o.apiKey(); key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	for name, values := range o.opts.Header {
		h[name] = values
	}
	if req.Config != nil && req.Config.HTTPOptions != nil {
		for name, values := range req.Config.HTTPOptions.Headers {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
}

// errorFromResponse parses an error of OpenAI or of a server with its own format.
func (o *openAI) errorFromResponse(resp *http.Response) *model.Error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBytes))
	if err != nil {
		body = nil
	}
	e := &model.Error{Code: resp.StatusCode, Status: statusWord(resp.StatusCode), Message: o.redactSecrets(errorMessage([]byte(o.redactSecrets(string(body))))), Err: retryAfter(resp.Header)}
	if e.Message == "" {
		e.Message = fmt.Sprintf("%s answered %s", o.name, resp.Status)
	}
	return e
}

// errorMessage returns the message of an error body: {"error": {"message": …}},
// {"error": …}, {"message": …}, {"detail": …}, or else the body itself.
func errorMessage(body []byte) string {
	var fields map[string]any
	if json.Unmarshal(body, &fields) != nil {
		return truncateBytes(bytes.TrimSpace(body))
	}
	if inner, ok := fields["error"].(map[string]any); ok {
		fields = inner
	}
	for _, key := range []string{"message", "error", "detail"} {
		if text, ok := fields[key].(string); ok && text != "" {
			return text
		}
	}
	return truncateBytes(bytes.TrimSpace(body))
}

// redactSecrets replaces the key and the headers of the document in a string.
func (o *openAI) redactSecrets(text string) string {
	secrets := []string{o.apiKey()}
	for _, values := range o.opts.Header {
		secrets = append(secrets, values...)
	}
	return spec.NewRedactor(secrets...).RedactString(text)
}

// toModelError converts a network error.
func (o *openAI) toModelError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("calling %s: %w", o.name, ctx.Err())
	}
	if named, ok := errors.AsType[*model.Error](err); ok {
		return named
	}
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	return &model.Error{Message: fmt.Sprintf("no response from %s: %s", o.name, o.redactSecrets(err.Error())), Err: err}
}

// Package ollama provides the models on Ollama servers, through Ollama's own API. [Kinds] are for
// the loader, and [New] is for Go callers.
package ollama

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agenthost/internal/baseurl"
	"agenthost/internal/legalrequest"
	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// Options configure a model on an Ollama server. The zero value is the server on this machine.
type Options struct {
	// Lookup reads a host environment variable; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the app's own variables, used if Lookup has none. An address in App never gets the
	// host's key.
	App map[string]string
	// BaseURL is the server's URL; the default is OLLAMA_API_BASE, then OLLAMA_HOST, then
	// http://127.0.0.1:11434.
	BaseURL string
	// APIKey is the bearer token; the default is OLLAMA_API_KEY, only for an address that the host
	// chose. Most servers need none.
	APIKey string
	// Header is sent with each call.
	Header http.Header
	// Think is true, false, low, medium or high; empty leaves it to the model. A
	// request's thinking config takes precedence.
	Think string
	// KeepAlive is how long the model stays loaded after a call: a duration such as 10m or a number
	// in seconds, where a negative one means forever; empty leaves it to the server.
	KeepAlive string
	// Options are the server's settings for the model, such as num_ctx. A request's settings take
	// precedence.
	Options map[string]any
	// Thoughts are the model's own thoughts that are sent back: drop, tools (the current turn's) or
	// always; empty is tools.
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

// New returns a model on an Ollama server, through Ollama's own API. It reads the environment on
// each call. opts may be nil.
func New(name string, opts *Options) model.LLM {
	o := &ollama{name: name}
	if opts != nil {
		o.opts = *opts
	}
	o.opts.Thoughts = cmp.Or(o.opts.Thoughts, modelapi.ThoughtsTools)
	o.service = modelapi.NewService(name, o.opts.HTTP, o.opts.Timeouts)
	if o.opts.Logger == nil {
		o.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return provider.Retry(o, &o.opts.Retry)
}

type ollama struct {
	name    string
	opts    Options
	service *modelapi.Service
}

func (o *ollama) Name() string { return o.name }

// Generate calls the model once; see [model.LLM].
func (o *ollama) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		legal := legalrequest.New(ctx, &ollamaRules, ollamaName, req)
		req, yield := legal.Request, legal.RestoreCalls(yield)
		resp, err := o.sendRequest(ctx, req)
		if err != nil {
			yield(nil, o.addHint(err, req))
			return
		}
		defer resp.CloseBody()
		r := &ollamaReader{ollama: o, resp: resp, stream: req.Stream, yield: modelapi.ForwardChunks(req.Stream, yield)}
		switch err := r.readResponse(); {
		case r.stopped:
		case err != nil:
			yield(nil, o.addHint(err, req))
		default:
			resp.DrainBody()
			yield(r.buildWhole(), nil)
		}
	}
}

func (o *ollama) sendRequest(ctx context.Context, req *model.Request) (*modelapi.Response, error) {
	body, err := o.encodeRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	at := ollamaEndpoint(modelapi.NewVariables(o.opts.Lookup, o.opts.App), o.opts.APIKey, o.opts.BaseURL)
	call := &modelapi.Request{Url: baseurl.Join(at.Base.Value, "/api/chat"), Header: http.Header{}, Body: body, Secrets: []string{at.Key.Value}, MaxCalls: req.MaxCalls}
	if at.Key.Value != "" {
		call.Header.Set("Authorization", "Bearer "+at.Key.Value)
	}
	for name, values := range o.opts.Header {
		call.Header[http.CanonicalHeaderKey(name)] = values
		call.Secrets = append(call.Secrets, values...)
	}
	if req.Config != nil {
		call.AddOptions(req.Config.HTTPOptions)
	}
	return o.service.PostJSON(ctx, call)
}

// ollamaEndpoint chooses the address and the key.
func ollamaEndpoint(vars modelapi.Variables, key, base string) modelapi.VendorEndpoint {
	e := ollamaVendor().ResolveEndpoint(vars, key, base)
	e.Base.Value = normalizeOllamaURL(e.Base.Value)
	return e
}

// normalizeOllamaURL completes an OLLAMA_HOST address, which may lack the scheme and the port, and
// may be the address on which the server listens. It removes the paths of Ollama's APIs.
func normalizeOllamaURL(base string) string {
	if !strings.Contains(base, "://") {
		base = "http://" + base
		if u, err := url.Parse(base); err == nil && u.Port() == "" {
			u.Host = net.JoinHostPort(u.Hostname(), "11434")
			base = u.String()
		}
	}
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsUnspecified() {
		local := "127.0.0.1"
		if ip.To4() == nil {
			local = "::1"
		}
		u.Host = net.JoinHostPort(local, cmp.Or(u.Port(), "11434"))
	}
	for _, path := range []string{"/v1", "/api"} {
		u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), path)
	}
	return u.String()
}

// addHint adds what helps against an Ollama error. err may be nil.
func (o *ollama) addHint(err error, req *model.Request) error {
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || failed.Hint != "" {
		return err
	}
	hinted := *failed
	message := strings.ToLower(failed.Message)
	switch {
	case failed.Code == http.StatusNotFound && strings.Contains(message, "not found") && strings.Contains(message, "model"):
		hinted.Hint = "pull it with `ollama pull " + cmp.Or(req.Model, o.name) + "`"
	case strings.Contains(message, "does not support tools"):
		hinted.Hint = "use a model with tools, or an agent without"
	case strings.Contains(message, "does not support thinking"):
		hinted.Hint = "remove think from the model, and thinking_config from the agent"
	case errors.Is(failed.Err, syscall.ECONNREFUSED):
		hinted.Hint = "start it with `ollama serve`, or set OLLAMA_API_BASE to its address"
	default:
		return err
	}
	return &hinted
}

type ollamaConfig struct {
	Provider             string                 `yaml:"provider" doc:"ollama, or ollama_chat, which is the same."`
	Model                string                 `yaml:"model" required:"true" doc:"The model's name, such as qwen3:8b."`
	BaseURL              spec.Text              `yaml:"base_url" doc:"The server URL. Default: OLLAMA_API_BASE, OLLAMA_HOST, or http://127.0.0.1:11434."`
	APIKey               spec.Secret            `yaml:"api_key" secret:"true" doc:"The API key, if the server needs one. Default, if base_url is not set: OLLAMA_API_KEY."`
	Headers              map[string]spec.Secret `yaml:"headers" doc:"Headers to send with each call."`
	Think                spec.Text              `yaml:"think" doc:"Whether the model thinks: true, false, low, medium or high. An agent's thinking_config takes precedence. Default: the model's."`
	KeepAlive            spec.Text              `yaml:"keep_alive" doc:"How long the model stays loaded after a call: a duration such as 10m or a number of seconds; negative means forever. Default: the server's."`
	Options              map[string]any         `yaml:"options" doc:"Ollama's model settings, such as num_ctx, the context size in tokens: the server drops what exceeds it."`
	Thoughts             string                 `yaml:"thoughts" enum:"drop|tools|always" default:"tools" doc:"Which of its own thoughts the model gets back: none, the current turn's, or all."`
	provider.CallsConfig `yaml:",inline"`
}

var (
	_ provider.EndpointConfig   = (*ollamaConfig)(nil)
	_ provider.CredentialConfig = (*ollamaConfig)(nil)
	_ provider.FallbackConfig   = (*ollamaConfig)(nil)
)

// DecodeSpec decodes and checks the config.
func (c *ollamaConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	switch c.Think.Value {
	case "", "true", "false", "low", "medium", "high":
	default:
		ds = append(ds, c.Think.Errorf(0, "value", "think must be true, false, low, medium or high, got %q", c.Think.Value))
	}
	if _, ok := parseKeepAlive(c.KeepAlive.Value); !ok {
		ds = append(ds, c.KeepAlive.Errorf(0, "value", "keep_alive must be a duration such as 10m or a number of seconds, got %q", c.KeepAlive.Value))
	}
	if c.BaseURL.Value != "" {
		if problem := modelapi.BadBaseURL(c.BaseURL.Value); problem != "" {
			ds = append(ds, c.BaseURL.Errorf(0, "value", "%s", problem))
		}
	}
	ds = append(ds, c.ValidateCalls(n)...)
	ds.Sort()
	return ds
}

// parseKeepAlive returns the request's value, or nil if there is none.
func parseKeepAlive(text string) (value any, ok bool) {
	if text == "" {
		return nil, true
	}
	if seconds, err := strconv.Atoi(text); err == nil {
		return seconds, true
	}
	_, err := time.ParseDuration(text)
	return text, err == nil
}

// ContextLimits returns the maximum prompt and response sizes. num_ctx limits the prompt, whatever
// the model accepts.
func (c *ollamaConfig) ContextLimits() provider.ContextLimits {
	l := c.CallsConfig.ContextLimits()
	if n, ok := c.Options["num_ctx"].(int64); ok && n > 0 && (l.Input == 0 || int(n) < l.Input) {
		l.Input = int(n)
	}
	return l
}

func buildOllama(_ context.Context, env provider.Env, c *ollamaConfig) (model.LLM, error) {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value.Reveal())
	}
	return New(c.Model, &Options{
		Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), Header: header,
		Think: c.Think.Value, KeepAlive: c.KeepAlive.Value, Options: c.Options, Thoughts: c.Thoughts, HTTP: env.HTTP,
		Timeouts: c.TimeoutOptions(), Retry: *c.RetryOptions(env), Logger: env.Logger,
	}), nil
}

// Endpoint returns the address that the model's calls go to.
func (c *ollamaConfig) Endpoint(env provider.Env) provider.Endpoint {
	e := ollamaEndpoint(modelapi.NewVariables(env.Lookup, env.App), c.APIKey.Reveal(), c.BaseURL.Value)
	return provider.Endpoint{URL: e.Base.Value, At: c.BaseURL, OfHost: !e.Base.OfApp && !e.Key.OfApp, Account: modelapi.AccountOf(e.Key.Value)}
}

// ollamaName is Ollama's name in the marks on parts.
const ollamaName = "ollama"

// ollamaVendor returns the service with Ollama's own API.
func ollamaVendor() *modelapi.Vendor {
	return &modelapi.Vendor{
		Prefix: ollamaName, Title: "Ollama", Base: "http://127.0.0.1:11434", BaseVariables: []string{"OLLAMA_API_BASE", "OLLAMA_HOST"},
		KeyVariables: []string{"OLLAMA_API_KEY"}, Local: true,
	}
}

// Credential describes the key. A local server needs none.
func (c *ollamaConfig) Credential(env provider.Env) provider.Credential {
	return ollamaVendor().DescribeCredential(env, c.APIKey.Reveal(), c.BaseURL.Value)
}

// RefusesGeminiTools returns true.
func (c *ollamaConfig) RefusesGeminiTools() bool { return true }

// Kinds returns the kinds for models on Ollama servers: ollama and its synonym ollama_chat.
func Kinds() spec.Kinds[provider.Env, model.LLM] {
	const doc = "Ollama, by default on this machine."
	return spec.Kinds[provider.Env, model.LLM]{spec.NewKind(ollamaName, doc, buildOllama), spec.NewKind("ollama_chat", doc, buildOllama)}
}

// Package provider implements the language models: gemini, anthropic, openai_compatible
// and scripted. Each is a kind with a config struct ([Kinds]) and a constructor for Go
// callers ([NewGemini], [NewAnthropic], [NewOpenAI], [NewScripted]). One test suite
// verifies that all of them implement [model.LLM].
//
// Building a model does no network I/O: remote models connect on the first call, and
// scripted loads and checks its script. Checking an app therefore builds its models too,
// and reports all problems with their positions.
package provider

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Env is the input for building a model.
type Env struct {
	// Name is the model's name in the document; if empty, the kind chooses one.
	Name string
	// Provider is the name of the kind, for errors.
	Provider string
	// Lookup reads a variable of the host's environment; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the variables of the app's .env, used if Lookup has none. An address
	// that the app chose never gets a key from Lookup.
	App map[string]string
	// File parses a document of the app by its path. It reports problems with positions,
	// including that of the path.
	File func(ctx context.Context, path spec.Text) (*spec.Node, spec.Diagnostics)
	// Model returns another model of the app, with its fallbacks. It reports problems
	// itself and then returns nil. It may be nil.
	Model func(ctx context.Context, name spec.Text) model.LLM
	// Gate has the limits of the model's calls, or is nil.
	Gate *Gate
	// HTTP is the client for calls of models; nil is [http.DefaultClient].
	HTTP *http.Client
	// Wait waits before a retry or a scripted response, or returns ctx's error; nil uses
	// timers.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger logs retries; nil discards logs.
	Logger *slog.Logger
}

// Kinds lists the providers of models in app.yaml. Problems that a builder finds in a
// file are a [spec.Diagnostics] error.
func Kinds() spec.Kinds[Env, model.LLM] {
	kinds := spec.Kinds[Env, model.LLM]{
		spec.NewKind("gemini", "Gemini, through the Gemini API or Vertex AI.", buildGemini),
		spec.NewKind("anthropic", "Claude, through Anthropic's API or Vertex AI.", buildAnthropic),
		spec.NewKind("vertex_ai", "Gemini and Claude on Vertex AI.", buildVertex),
	}
	for _, v := range chatVendors() {
		kinds = append(kinds, newChatKind(v))
	}
	for _, name := range []string{ollamaName, "ollama_chat"} {
		kinds = append(kinds, spec.NewKind(name, "Ollama, by default on this machine.", buildOllama))
	}
	return append(kinds,
		spec.NewKind("route", "Chooses another model of the app for each call by conditions.", buildRoute),
		spec.NewKind("apigee", "Models behind an Apigee proxy, at the address in APIGEE_PROXY_URL.", buildApigee),
		spec.NewKind("scripted", "Answers from a script, without network access or an API key.", buildScripted),
	)
}

type geminiConfig struct {
	Provider string      `yaml:"provider" doc:"gemini."`
	Model    string      `yaml:"model" required:"true" doc:"The model's name, such as gemini-flash-latest."`
	BaseURL  spec.Text   `yaml:"base_url" doc:"The URL of the service. Default: Google's."`
	APIKey   spec.Secret `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: GOOGLE_API_KEY or GEMINI_API_KEY."`
	Calls    callsConfig `yaml:",inline"`
}

// DecodeSpec decodes and checks the config.
func (c *geminiConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeService(n, c, &c.BaseURL, &c.Calls)
}

// Fallbacks returns the names of the fallback models.
func (c *geminiConfig) Fallbacks() []FallbackRef { return c.Calls.Fallback }

// CallLimits returns the limits of calls.
func (c *geminiConfig) CallLimits() (Limits, bool) { return c.Calls.Limits.Limits() }

// geminiNames matches the model names of Gemini's service.
var geminiNames = regexp.MustCompile(`^(gemini|gemma|learnlm|models/|projects/|publishers/google/|tunedModels/)`)

// RecognizesName reports whether a model name without a prefix belongs to Gemini's
// service.
func (c *geminiConfig) RecognizesName(name string) bool {
	return geminiNames.MatchString(name) && !strings.Contains(name, "publishers/anthropic/")
}

// ModelPrice returns the price.
func (c *geminiConfig) ModelPrice() *Price { return c.Calls.Price.priceOrNil() }

func buildGemini(_ context.Context, env Env, c *geminiConfig) (model.LLM, error) {
	return NewGemini(c.Model, &GeminiOptions{
		Lookup: env.Lookup, App: env.App, APIKey: c.APIKey.Reveal(), BaseURL: c.BaseURL.Value, HTTP: env.HTTP,
		Timeouts: c.Calls.Timeouts.timeoutOptions(), Retry: *c.Calls.Retry.retryOptions(env), Logger: env.Logger,
	}), nil
}

// Endpoint returns the address of the model's calls.
func (c *geminiConfig) Endpoint(env Env) Endpoint {
	return geminiAccess{key: c.APIKey.Reveal(), base: c.BaseURL.Value}.describeEndpoint(env, c.BaseURL)
}

// A chatConfig is the config of all services with OpenAI's chat completions API.
type chatConfig struct {
	vendor *vendor

	Provider string                 `yaml:"provider" doc:"One of the providers above."`
	Model    string                 `yaml:"model" required:"true" doc:"The model's name at the service."`
	BaseURL  spec.Text              `yaml:"base_url" doc:"The URL of the service, without /chat/completions. Default: that of the provider's variable, or its usual one."`
	APIKey   spec.Secret            `yaml:"api_key" secret:"true" doc:"The API key. Default, if base_url is not set: that of the provider's variable. Local servers may need none."`
	Headers  map[string]spec.Secret `yaml:"headers" doc:"Headers to send with each call."`
	API      string                 `yaml:"api" enum:"chat|responses" doc:"The API of the service: chat completions, or OpenAI's Responses. Default: responses for reasoning models of the provider openai at OpenAI's own address, else chat."`
	Thoughts string                 `yaml:"thoughts" enum:"drop|tools|always" doc:"Which of its own thoughts the model gets back: none, those of the current turn, or all. Default: what the service requires."`
	Calls    callsConfig            `yaml:",inline"`
}

func newChatKind(v *vendor) spec.Kind[Env, model.LLM] {
	return spec.NewKindFrom(v.prefix, v.describeVendor(), func() *chatConfig { return &chatConfig{vendor: v} }, buildChat)
}

// DecodeSpec decodes and checks the config.
func (c *chatConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return decodeService(n, c, &c.BaseURL, &c.Calls)
}

// Fallbacks returns the names of the fallback models.
func (c *chatConfig) Fallbacks() []FallbackRef { return c.Calls.Fallback }

// CallLimits returns the limits of calls.
func (c *chatConfig) CallLimits() (Limits, bool) { return c.Calls.Limits.Limits() }

// RecognizesName reports whether a model name without a prefix belongs to the service.
func (c *chatConfig) RecognizesName(name string) bool {
	return c.vendor.names != nil && c.vendor.names.MatchString(name)
}

// ModelPrice returns the price.
func (c *chatConfig) ModelPrice() *Price { return c.Calls.Price.priceOrNil() }

func buildChat(_ context.Context, env Env, c *chatConfig) (model.LLM, error) {
	header := http.Header{}
	for name, value := range c.Headers {
		header.Set(name, value.Reveal())
	}
	return newChat(c.vendor, c.Model, &OpenAIOptions{
		Lookup: env.Lookup, App: env.App, BaseURL: c.BaseURL.Value, APIKey: c.APIKey.Reveal(), Header: header, API: c.API, Thoughts: c.Thoughts, HTTP: env.HTTP,
		Timeouts: c.Calls.Timeouts.timeoutOptions(), Retry: *c.Calls.Retry.retryOptions(env), Logger: env.Logger,
	}), nil
}

// Endpoint returns the address of the model's calls.
func (c *chatConfig) Endpoint(env Env) Endpoint {
	return describeVendorEndpoint(c.vendor, env, c.APIKey, c.BaseURL)
}

type scriptedConfig struct {
	Provider string    `yaml:"provider" doc:"scripted."`
	Script   spec.Text `yaml:"script" required:"true" doc:"The file with the script, such as demo.script.yaml."`
	Model    string    `yaml:"model" default:"scripted" doc:"The name of the model."`

	Retry    *retryConfig  `yaml:"retry" doc:"When to retry failed calls. Default: never."`
	Price    *PriceConfig  `yaml:"price" doc:"The price of tokens. Default: none."`
	Fallback []FallbackRef `yaml:"fallback" doc:"Models of the app to try in this order when this one fails."`
}

// Check reports problems that depend on several fields.
func (c *scriptedConfig) Check(n *spec.Node) spec.Diagnostics {
	if c.Retry == nil {
		return nil
	}
	return c.Retry.validateRetry(n.Get("retry"))
}

// ModelPrice returns the price.
func (c *scriptedConfig) ModelPrice() *Price { return c.Price.priceOrNil() }

// Fallbacks returns the names of the fallback models.
func (c *scriptedConfig) Fallbacks() []FallbackRef { return c.Fallback }

func buildScripted(ctx context.Context, env Env, c *scriptedConfig) (model.LLM, error) {
	if env.File == nil {
		return nil, spec.Diagnostics{c.Script.Errorf(0, "script", "there are no files to read %s from", c.Script)}
	}
	n, ds := env.File(ctx, c.Script)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	script, ds := DecodeScript(n)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	llm := NewScripted(script, &ScriptedOptions{Name: cmp.Or(c.Model, env.Name), Wait: env.Wait})
	if c.Retry != nil {
		env.Provider = "" // a script's errors are complete
		llm = Retry(llm, c.Retry.retryOptions(env))
	}
	return llm, nil
}

// decodeService decodes and checks the settings of a service. base and calls are fields
// of dst.
func decodeService(n *spec.Node, dst any, base *spec.Text, calls *callsConfig) spec.Diagnostics {
	ds := spec.Decode(n, dst)
	if base.Value != "" {
		if problem := badBaseURL(base.Value); problem != "" {
			ds = append(ds, base.Errorf(0, "value", "%s", problem))
		}
	}
	ds = append(ds, calls.validateCalls(n)...)
	ds.Sort()
	return ds
}

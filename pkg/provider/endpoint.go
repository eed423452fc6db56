package provider

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Env is the input for building a model.
type Env struct {
	// Name is the model's name in the document; if empty, the kind chooses one.
	Name string
	// Provider is the kind's name, for errors.
	Provider string
	// Lookup reads a host environment variable; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the variables in the app's .env, used if Lookup has none. An address that the app
	// chose never gets a key from Lookup.
	App map[string]string
	// File parses an app document by its path. It reports problems with positions, also for the
	// path.
	File func(ctx context.Context, path spec.Text) (*spec.Node, spec.Diagnostics)
	// Model returns another model in the app, with its fallbacks. It reports problems itself and
	// then returns nil. It may be nil.
	Model func(ctx context.Context, name spec.Text) model.LLM
	// Gate has the limits for the model's calls, or is nil.
	Gate *Gate
	// HTTP is the client for model calls; nil is [http.DefaultClient].
	HTTP *http.Client
	// Wait waits before a retry or a scripted response, or returns ctx's error; nil uses
	// timers.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger logs retries; nil discards logs.
	Logger *slog.Logger
}

// An EndpointConfig is the config for a model that reaches a server.
type EndpointConfig interface{ Endpoint(env Env) Endpoint }

// A NameConfig is the config for a model whose kind recognizes names without its prefix, such as
// gpt-5. The config is new: nothing is decoded into it.
type NameConfig interface{ RecognizesName(name string) bool }

// A DefaultConfig is the config for a model whose kind serves agents that neither name nor inherit
// a model, and models whose names no kind recognizes. The config is new.
type DefaultConfig interface {
	// DefaultModel returns that model's name, and what a message calls a model of the kind, such as
	// "a Gemini model".
	DefaultModel() (name, title string)
}

// A ClassConfig is the config for a model that is a class in ADK, such as AnthropicLlm. The config
// is new.
type ClassConfig interface {
	// ADKClass returns the class, and its model names' prefix here.
	ADKClass() (class, prefix string)
}

// A ServerConfig is the config for a model whose kind reaches any server with an API. The config is
// new.
type ServerConfig interface {
	// DescribeServer returns how a document declares a model on such a server, or "".
	DescribeServer(model string) string
}

// A KeyConfig is the config for a model whose key can be in the environment.
type KeyConfig interface {
	// KeyVariables returns the variables that may hold the key, the usual one first, or none if
	// calls need no key from a variable. A config that may have its own key is a [CredentialConfig]
	// as well.
	KeyVariables(env Env) []string
}

// An Endpoint is a model's address.
type Endpoint struct {
	URL string
	// At is the document text that sets it. Its position is zero if there is none.
	At spec.Text
	// OfHost is set if the host or the provider chose the address and the key belongs to
	// the host. Otherwise the app chose one of the two.
	OfHost bool
	// Account is the key's hash, for limits that models with the same key share; empty without a
	// key.
	Account string
}

// A GeminiToolRefuser is the config for a model that may refuse requests with tools that run inside
// Gemini's service, such as google_search: they cannot be left out without changing the answer.
type GeminiToolRefuser interface{ RefusesGeminiTools() bool }

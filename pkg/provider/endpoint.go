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

// An EndpointConfig is the config of a model that reaches a server.
type EndpointConfig interface{ Endpoint(env Env) Endpoint }

// A NameConfig is the config of a model whose kind recognizes names without its prefix,
// such as gpt-5. The config is new: nothing is decoded into it.
type NameConfig interface{ RecognizesName(name string) bool }

// A DefaultConfig is the config of a model whose kind has the model of agents that neither name
// nor inherit one, and the models whose names no kind recognizes. The config is new.
type DefaultConfig interface {
	// DefaultModel returns the name of that model, and what a message calls a model of the
	// kind, such as "a Gemini model".
	DefaultModel() (name, title string)
}

// A ClassConfig is the config of a model that is a class in ADK, such as AnthropicLlm. The
// config is new.
type ClassConfig interface {
	// ADKClass returns the class, and the prefix that the names of its models have here.
	ADKClass() (class, prefix string)
}

// A ServerConfig is the config of a model whose kind reaches any server of an API. The config
// is new.
type ServerConfig interface {
	// DescribeServer returns how a document declares a model on such a server, or "".
	DescribeServer(model string) string
}

// A KeyConfig is the config of a model whose key can be in the environment.
type KeyConfig interface {
	// KeyVariables returns the variables that may hold the key, the usual one first, or
	// none if calls need no key of a variable. A config that may have a key of its own is
	// a [CredentialConfig] as well.
	KeyVariables(env Env) []string
}

// An Endpoint is the address of a model.
type Endpoint struct {
	URL string
	// At is the text of the document that sets it. Its position is zero if there is
	// none.
	At spec.Text
	// OfHost is set if the host or the provider chose the address and the key belongs to
	// the host. Otherwise the app chose one of the two.
	OfHost bool
	// Account is a hash of the key, for limits that models with the same key share;
	// empty without a key.
	Account string
}

// A GeminiToolRefuser is the config of a model that may refuse requests with tools that run
// inside of Gemini's service, such as google_search: they cannot be left out without changing
// the answer.
type GeminiToolRefuser interface{ RefusesGeminiTools() bool }

// Package provider implements the language models: gemini, openai_compatible and
// scripted. Each is a kind with a config struct ([Kinds]) and a constructor for Go
// callers ([NewGemini], [NewOpenAI], [NewScripted]). One test suite verifies that all of
// them implement [model.LLM].
//
// Building a model does no network I/O: gemini and openai_compatible connect on the
// first call, and scripted loads and checks its script. Checking an app therefore builds
// its models too, and reports all problems with their positions.
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
	// Lookup reads a variable of the host's environment; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App holds the variables of the app's .env, used if Lookup has none. An address
	// that the app chose never gets a key from Lookup.
	App map[string]string
	// File parses a document of the app by its path. It reports problems with positions,
	// including that of the path.
	File func(ctx context.Context, path spec.Text) (*spec.Node, spec.Diagnostics)
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
	return spec.Kinds[Env, model.LLM]{
		spec.NewKind("gemini", "Gemini, through the Gemini API or Vertex AI.", buildGemini),
		spec.NewKind("openai_compatible", "Any server with OpenAI's chat completions API: OpenAI, or a local server.", buildOpenAI),
		spec.NewKind("scripted", "Answers from a script, without network access or an API key.", buildScripted),
	}
}

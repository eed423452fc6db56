// Package provider holds the language models that a document may name: gemini,
// openai_compatible and scripted. Each is a kind with a config struct ([Kinds])
// and a constructor for Go callers ([NewGemini], [NewOpenAI], [NewScripted]). All of them are a [model.LLM];
// one test suite says what that means.
//
// Building a model does no network I/O: gemini and openai_compatible connect at their calls, and
// scripted reads and checks its script. So a check of an app builds its models
// too, and finds every problem that has a place.
package provider

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// Env is what building a model may use.
type Env struct {
	// Name is what the document calls the model; empty leaves it to the kind.
	Name string
	// Lookup reads a variable of the host's environment; nil is [os.LookupEnv].
	Lookup func(name string) (string, bool)
	// App are the variables of the app's .env, which count where Lookup has none.
	// An address that the app has chosen never gets a key of Lookup.
	App map[string]string
	// File reads a document of the app by its path there. The problems it
	// returns have places, that of the path included.
	File func(ctx context.Context, path spec.Text) (*spec.Node, spec.Diagnostics)
	// HTTP carries calls of models; nil is [http.DefaultClient].
	HTTP *http.Client
	// Wait passes the time before a retry and before a scripted answer, or
	// returns ctx's error; nil waits on timers.
	Wait func(ctx context.Context, d time.Duration) error
	// Logger logs retries; nil discards logs.
	Logger *slog.Logger
}

// Kinds lists every provider that a model of app.yaml may name. A problem that
// a builder finds at a place of a file is an error of type [spec.Diagnostics].
func Kinds() spec.Kinds[Env, model.LLM] {
	return spec.Kinds[Env, model.LLM]{
		spec.NewKind("gemini", "Gemini, through the Gemini API or Vertex AI.", buildGemini),
		spec.NewKind("openai_compatible", "Any server with OpenAI's chat completions API: OpenAI, or a local server.", buildOpenAI),
		spec.NewKind("scripted", "Answers from a script, without network access or an API key.", buildScripted),
	}
}

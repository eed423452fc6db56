package provider_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFake(t *testing.T) *fakegemini.Server {
	t.Helper()
	fake := fakegemini.New()
	t.Cleanup(fake.Close)
	return fake
}

// fakeOptions connect to the fake, with only a key in the environment and without
// retries.
func fakeOptions(fake *fakegemini.Server) *provider.GeminiOptions {
	return &provider.GeminiOptions{
		Lookup: lookup(nil), APIKey: "test-key-1234", BaseURL: fake.URL(), HTTP: fake.Client(),
		Retry: provider.RetryOptions{Attempts: 1},
	}
}

// vertexOptions connect to the fake like to Vertex AI.
func vertexOptions(fake *fakegemini.Server) *provider.GeminiOptions {
	opts := fakeOptions(fake)
	opts.APIKey = ""
	opts.Lookup = lookup(map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p"})
	opts.Token = func(context.Context) (string, error) { return "test-token", nil }
	return opts
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// ask calls the model with one user message.
func ask(t *testing.T, llm model.LLM, stream bool) ([]*model.Response, error) {
	t.Helper()
	return collect(llm.Generate(t.Context(), scriptInput("hi", stream)))
}

func scriptInput(text string, stream bool) *model.Request {
	return &model.Request{
		Contents: []*genai.Content{model.UserText(text)}, Config: &genai.GenerateContentConfig{}, Stream: stream,
		Origin: model.Origin{App: "app", Agent: "root", UserID: "u", SessionID: "s", UserText: text},
	}
}

func collect(seq iter.Seq2[*model.Response, error]) ([]*model.Response, error) {
	var all []*model.Response
	for r, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// outline formats responses as texts, partial ones with a leading +, and calls as
// name().
func outline(rs []*model.Response) []string {
	var out []string
	for _, r := range rs {
		var b strings.Builder
		if r.Partial {
			b.WriteByte('+')
		}
		b.WriteString(model.TextOf(r.Content))
		for _, c := range model.CallsOf(r.Content) {
			b.WriteString(c.Name + "()")
		}
		if r.ErrorCode != "" {
			b.WriteString("!" + r.ErrorCode)
		}
		out = append(out, b.String())
	}
	return out
}

func mode(stream bool) string {
	if stream {
		return "stream"
	}
	return "unary"
}

// waits records requested delays without waiting.
type waits []time.Duration

func (w *waits) wait(ctx context.Context, d time.Duration) error {
	*w = append(*w, d)
	return ctx.Err()
}

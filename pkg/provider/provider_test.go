package provider_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"agenthost/internal/fakegemini"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A scenario configures the only call of a model.
type scenario struct {
	chunks []string
	call   *genai.FunctionCall
	fail   *model.Error
	// hold, if set, is called when the call starts; the response then never arrives.
	hold func()
}

// A subject is a provider under test.
type subject struct {
	name  string
	build func(t *testing.T, s scenario) model.LLM
}

func subjects() []subject {
	return []subject{
		{"gemini", geminiSubject},
		{"openai", openAISubject},
		{"openai_responses", responsesSubject},
		{"anthropic", anthropicSubject},
		{"ollama", ollamaSubject},
		{"scripted", scriptedSubject},
	}
}

func geminiSubject(t *testing.T, s scenario) model.LLM {
	reply := fakegemini.Text(s.chunks...)
	if s.call != nil {
		reply.Parts = append(reply.Parts, &genai.Part{FunctionCall: s.call})
	}
	if s.fail != nil {
		reply = fakegemini.Failure(s.fail.Code, s.fail.Message)
	}
	if s.hold != nil {
		reply.Hold, reply.Started = make(chan struct{}), s.hold
	}
	fake := newFake(t)
	fake.Enqueue(reply)
	return provider.NewGemini("gemini-x", fakeOptions(fake))
}

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
		Origin: model.Origin{App: "app", Agent: "root", UserID: "u", SessionID: "s", User: text},
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

func TestSuite(t *testing.T) {
	call := &genai.FunctionCall{Name: "lookup", Args: map[string]any{"id": "7"}}
	tests := []struct {
		name     string
		scenario scenario
		stream   bool
		want     []string
	}{
		{"text", scenario{chunks: []string{"one ", "two"}}, false, []string{"one two"}},
		{"text streamed", scenario{chunks: []string{"one ", "two"}}, true, []string{"+one ", "+two", "one two"}},
		{"call", scenario{call: call}, false, []string{"lookup()"}},
		{"call streamed", scenario{call: call}, true, []string{"+lookup()", "lookup()"}},
		{"text and call streamed", scenario{chunks: []string{"wait"}, call: call}, true, []string{"+wait", "+lookup()", "waitlookup()"}},
	}
	for _, p := range subjects() {
		for _, tt := range tests {
			t.Run(p.name+"/"+tt.name, func(t *testing.T) {
				got, err := ask(t, p.build(t, tt.scenario), tt.stream)
				if err != nil {
					t.Fatalf("Generate() = %v", err)
				}
				if diff := cmp.Diff(tt.want, outline(got)); diff != "" {
					t.Errorf("Generate() (-want +got):\n%s", diff)
				}
				checkWhole(t, got[len(got)-1], tt.scenario.call)
			})
		}
	}
}

func checkWhole(t *testing.T, whole *model.Response, call *genai.FunctionCall) {
	t.Helper()
	if whole.Partial || whole.Content.Role != genai.RoleModel || whole.FinishReason != genai.FinishReasonStop {
		t.Errorf("the last response is partial=%v role=%s finish=%s, want false, model, STOP",
			whole.Partial, whole.Content.Role, whole.FinishReason)
	}
	if calls := model.CallsOf(whole.Content); call != nil {
		if diff := cmp.Diff([]*genai.FunctionCall{call}, calls, cmpopts.IgnoreFields(genai.FunctionCall{}, "ID")); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
}

func TestSuiteFailure(t *testing.T) {
	for _, p := range subjects() {
		for _, stream := range []bool{false, true} {
			t.Run(p.name+"/"+mode(stream), func(t *testing.T) {
				llm := p.build(t, scenario{fail: &model.Error{Code: 503, Message: "overloaded"}})
				got, err := ask(t, llm, stream)
				failed, ok := errors.AsType[*model.Error](err)
				if !ok || len(got) != 0 {
					t.Fatalf("Generate() = %v, %v, want nothing and a *model.Error", outline(got), err)
				}
				if want := "model: 503 UNAVAILABLE: overloaded"; !strings.HasPrefix(failed.Error(), want) || !failed.Retryable() {
					t.Errorf("Generate() = %q, retryable %v, want %q, true", failed, failed.Retryable(), want)
				}
			})
		}
	}
}

func TestSuiteCancel(t *testing.T) {
	for _, p := range subjects() {
		for _, stream := range []bool{false, true} {
			t.Run(p.name+"/"+mode(stream), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				llm := p.build(t, scenario{chunks: []string{"a ", "b"}, hold: cancel})
				_, err := collect(llm.Generate(ctx, scriptInput("hi", stream)))
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Generate() = %v, want context canceled", err)
				}
			})
		}
	}
}

func TestSuiteStopEarly(t *testing.T) {
	for _, p := range subjects() {
		t.Run(p.name, func(t *testing.T) {
			llm := p.build(t, scenario{chunks: []string{"a ", "b ", "c"}})
			for r, err := range llm.Generate(t.Context(), scriptInput("hi", true)) {
				if err != nil || !r.Partial {
					t.Errorf("Generate() = %v, %v, want a partial response", r, err)
				}
				break
			}
		})
	}
}

func TestSuiteName(t *testing.T) {
	for _, p := range subjects() {
		if got := p.build(t, scenario{}).Name(); got == "" {
			t.Errorf("%s: Name() is empty", p.name)
		}
	}
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

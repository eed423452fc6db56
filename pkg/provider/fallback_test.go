package provider_test

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// The fallback is called only after retryable errors without a response.
func TestFallbackAfterRetryableErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		first  fakeopenai.Reply
		second fakeopenai.Reply
		want   string
		asked  int
	}{
		{"an answer", fakeopenai.Reply{Chunks: []string{"one"}}, fakeopenai.Reply{}, "one", 0},
		{"overloaded", fakeopenai.Reply{Status: 503}, fakeopenai.Reply{Chunks: []string{"two"}}, "two", 1},
		{"nothing usable", fakeopenai.Reply{Raw: "x"}, fakeopenai.Reply{Chunks: []string{"two"}}, "two", 1},
		{"a wrong request", fakeopenai.Reply{Status: 400, Message: "no"}, fakeopenai.Reply{}, "model: 400 INVALID_ARGUMENT: no", 0},
		{"a wrong key", fakeopenai.Reply{Status: 401, Message: "who"}, fakeopenai.Reply{}, "model: 401 UNAUTHENTICATED: who", 0},
		{"both fail", fakeopenai.Reply{Status: 503}, fakeopenai.Reply{Status: 500, Message: "too"}, "model: 500 INTERNAL: too", 1},
		{"an answer that was begun", fakeopenai.Reply{Chunks: []string{"a"}, Raw: "data: x\n\n"}, fakeopenai.Reply{}, `model: malformed response from gpt-x: invalid character 'x' looking for beginning of value in "x"`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first, _ := modeltest.FakeOpenAI(t, tt.first)
			second, asked := modeltest.FakeOpenAI(t, tt.second)
			stream := tt.first.Raw != "" && len(tt.first.Chunks) > 0
			req := modeltest.ScriptInput("hi", stream)
			req.Model = "gpt-first"
			got, err := modeltest.Collect(provider.Fallback([]provider.FallbackModel{{Model: first}, {Model: second}}, nil).Generate(t.Context(), req))
			text := ""
			if err != nil {
				text = err.Error()
			} else {
				text = modeltest.Outline(got)[len(got)-1]
			}
			if text != tt.want || len(asked.Requests()) != tt.asked {
				t.Errorf("Generate() = %s, with %d calls of the fallback, want %s and %d", text, len(asked.Requests()), tt.want, tt.asked)
			}
			if tt.asked > 0 && asked.Requests()[0].Body["model"] != "gpt-x" {
				t.Errorf("the request to the fallback has the model %v, want its own name", asked.Requests()[0].Body["model"])
			}
		})
	}
}

// The log names the model that answered.
func TestFallbackLogs(t *testing.T) {
	first, _ := modeltest.FakeOpenAI(t, fakeopenai.Reply{Status: 503, Message: "busy"})
	second, _ := modeltest.FakeOpenAI(t)
	var log bytes.Buffer
	llm := provider.Fallback([]provider.FallbackModel{{Model: first, Name: "main"}, {Model: second, Name: "spare"}}, slog.New(slog.NewTextHandler(&log, nil)))
	if _, err := modeltest.Ask(t, llm, false); err != nil {
		t.Fatal(err)
	}
	if want := `msg="model failed, trying fallback" model=main fallback=spare reason=overloaded error="model: 503 UNAVAILABLE: busy"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log is %s, want %s", &log, want)
	}
	if model.RunsCode(llm) || model.CanCache(llm) || llm.Name() != "gpt-x" {
		t.Error("it can more than both of them")
	}
}

// A fallback is tried after the failures that it lists, and the event has the reason.
func TestFallbackOn(t *testing.T) {
	refused := &model.Response{FinishReason: genai.FinishReasonSafety, ErrorCode: "SAFETY", ErrorMessage: "no"}
	for _, tt := range []struct {
		name string
		err  error
		on   []string
		want any
	}{
		{"529 by default", &model.Error{Code: 529}, nil, "overloaded"},
		{"no credit by default", &model.Error{Code: 402}, nil, "credit"},
		{"no answer by default", &model.Error{Message: "cut"}, nil, "connection"},
		{"408 may have been processed", &model.Error{Code: 408, Message: "slow"}, nil, "model: 408: slow"},
		{"a long context needs on", &model.Error{Code: 400, Message: "prompt is too long"}, nil, "model: 400: prompt is too long"},
		{"context", &model.Error{Code: 400, Message: "prompt is too long"}, []string{"context_window"}, "context_window"},
		{"only what is listed", &model.Error{Code: 429, Message: "slow down"}, []string{"context_window"}, "model: 429: slow down"},
		{"refusal", nil, []string{"refusal"}, "refusal"},
		{"refusal is an answer by default", nil, nil, "SAFETY"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var first model.LLM = &failing{9, tt.err}
			if tt.err == nil {
				first = fixedResponse{refused}
			}
			llm := provider.Fallback([]provider.FallbackModel{{Model: first, Name: "a"}, {Model: &failing{}, Name: "b", On: tt.on}}, nil)
			got, err := modeltest.Ask(t, llm, false)
			if err != nil {
				if modeltest.ErrorText(err) != tt.want {
					t.Errorf("Generate() = %v, want %v", err, tt.want)
				}
				return
			}
			last := got[len(got)-1]
			want := map[string]any{"model_fallback": map[string]any{"from": "a", "to": "b", "reason": tt.want}}
			if last.ErrorCode != "" {
				if last.ErrorCode != tt.want {
					t.Errorf("ErrorCode = %s, want %v", last.ErrorCode, tt.want)
				}
				return
			}
			if diff := cmp.Diff(want, last.CustomMetadata); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

// With a cooldown, later calls begin with the fallback, until it ends or the fallback
// fails, too.
func TestFallbackCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := &failing{1, &model.Error{Code: 503}}, &failing{}
		llm := provider.Fallback([]provider.FallbackModel{{Model: first, Name: "a"}, {Model: second, Name: "b", Cooldown: time.Minute}}, nil)
		reason := func() any {
			got, err := modeltest.Ask(t, llm, false)
			if err != nil {
				return err.Error()
			}
			step, _ := got[0].CustomMetadata["model_fallback"].(map[string]any)
			return step["reason"]
		}
		for _, tt := range []struct {
			pass time.Duration
			want any
		}{{0, "overloaded"}, {59 * time.Second, "cooldown"}, {time.Second, nil}} {
			time.Sleep(tt.pass) // fake time
			if got := reason(); got != tt.want {
				t.Errorf("reason = %v, want %v", got, tt.want)
			}
		}
		first.left, first.err = 1, &model.Error{Code: 503}
		reason()
		second.left, second.err = 1, &model.Error{Code: 500, Message: "too"}
		if got := reason(); got != "model: 500: too" {
			t.Errorf("both failed: %v", got)
		}
		if got := reason(); got != nil {
			t.Errorf("after both failed: reason = %v, want the first model", got)
		}
	})
}

// fixedResponse yields one response.
type fixedResponse struct{ response *model.Response }

func (fixedResponse) Name() string { return "fixedResponse" }

func (a fixedResponse) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) { yield(a.response, nil) }
}

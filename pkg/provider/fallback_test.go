package provider_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"agenthost/internal/fakeopenai"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// The fallback is called only after retryable errors without a response.
func TestFallback(t *testing.T) {
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
			first, _ := fakeOpenAI(t, tt.first)
			second, asked := fakeOpenAI(t, tt.second)
			stream := tt.first.Raw != "" && len(tt.first.Chunks) > 0
			req := scriptInput("hi", stream)
			req.Model = "gpt-first"
			got, err := collect(provider.Fallback(first, []model.LLM{second}, nil).Generate(t.Context(), req))
			text := ""
			if err != nil {
				text = err.Error()
			} else {
				text = outline(got)[len(got)-1]
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
	first, _ := fakeOpenAI(t, fakeopenai.Reply{Status: 503, Message: "busy"})
	second, _ := fakeOpenAI(t)
	var log bytes.Buffer
	llm := provider.Fallback(first, []model.LLM{second}, slog.New(slog.NewTextHandler(&log, nil)))
	if _, err := ask(t, llm, false); err != nil {
		t.Fatal(err)
	}
	if want := `msg="model failed, trying fallback" model=gpt-x fallback=gpt-x error="model: 503 UNAVAILABLE: busy"`; !strings.Contains(log.String(), want) {
		t.Errorf("the log is %s, want %s", &log, want)
	}
	if model.RunsCode(llm) || model.CanCache(llm) || llm.Name() != "gpt-x" {
		t.Error("it can more than both of them")
	}
}

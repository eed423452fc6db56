package provider_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fakegemini"
	"agenthost/internal/fakeopenai"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// calling returns a content of the model with calls, each ID:NAME.
func calling(calls ...string) *genai.Content {
	c := &genai.Content{Role: genai.RoleModel}
	for _, call := range calls {
		id, name, _ := strings.Cut(call, ":")
		c.Parts = append(c.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: name}})
	}
	return c
}

func replying(calls ...string) *genai.Content {
	c := &genai.Content{Role: genai.RoleUser}
	for _, call := range calls {
		id, name, _ := strings.Cut(call, ":")
		c.Parts = append(c.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Name: name, Response: map[string]any{"ok": true}}})
	}
	return c
}

// openCalls are conversations with calls without a response, as left by interrupted runs
// and pending calls.
var openCalls = []struct {
	name     string
	contents []*genai.Content
}{
	{"none is answered", []*genai.Content{model.UserText("a"), calling("1:f", "2:g"), model.UserText("b")}},
	{"the last word", []*genai.Content{model.UserText("a"), calling("1:f")}},
	{"one of two", []*genai.Content{model.UserText("a"), calling("1:f", "2:g"), replying("2:g"), model.UserText("b")}},
	{"without ids", []*genai.Content{model.UserText("a"), calling(":f", ":g", ":f"), replying(":f", ":g"), model.UserText("b")}},
	{"two turns", []*genai.Content{model.UserText("a"), calling("1:f"), model.UserText("b"), calling("2:f"), replying("2:f")}},
}

// Services reject conversations with a call without a response (semantics 22, trap 28),
// so that an interrupted conversation could not continue.
func TestOpenCalls(t *testing.T) {
	for _, tt := range openCalls {
		t.Run(tt.name, func(t *testing.T) {
			req := scriptInput("b", false)
			req.Contents = tt.contents
			before := len(tt.contents)
			gemini := newFake(t)
			gemini.Enqueue(fakegemini.Text("fine"))
			openai, _ := fakeOpenAI(t, fakeopenai.Reply{Chunks: []string{"fine"}})
			for name, llm := range map[string]model.LLM{
				"gemini": provider.NewGemini("gemini-x", fakeOptions(gemini)),
				"openai": openai,
			} {
				got, err := collect(llm.Generate(t.Context(), req))
				if err != nil || cmp.Diff([]string{"fine"}, outline(got)) != "" {
					t.Errorf("%s: Generate() = %v, %v, want fine", name, outline(got), err)
				}
			}
			if len(tt.contents) != before || len(req.Contents) != before {
				t.Error("the conversation itself was changed")
			}
		})
	}
}

// A call without a response gets a placeholder.
func TestOpenCallsInRequest(t *testing.T) {
	fake := newFake(t)
	req := scriptInput("b", false)
	req.Contents = openCalls[2].contents
	if _, err := collect(provider.NewGemini("gemini-x", fakeOptions(fake)).Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	contents := fake.Requests()[0].Body["contents"].([]any)
	parts := contents[2].(map[string]any)["parts"].([]any)
	answer := parts[1].(map[string]any)["functionResponse"]
	want := map[string]any{"id": "1", "name": "f", "response": map[string]any{"status": "No response to this call is available: it may still be pending, or the call was interrupted."}}
	if diff := cmp.Diff(any(want), answer); diff != "" || len(parts) != 2 {
		t.Errorf("%d parts; the open call (-want +got):\n%s", len(parts), diff)
	}
}

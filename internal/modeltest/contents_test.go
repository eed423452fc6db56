package modeltest_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/wing/gemini"
)

// emptyParts are conversations with empty texts, and the request that each service gets.
var emptyParts = []struct {
	name           string
	contents       []*genai.Content
	gemini, openai string
}{
	{
		"none",
		[]*genai.Content{model.UserText("a"), model.ModelText("b"), model.UserText("c")},
		`[{"parts":[{"text":"a"}],"role":"user"},{"parts":[{"text":"b"}],"role":"model"},{"parts":[{"text":"c"}],"role":"user"}]`,
		`[{"content":"a","role":"user"},{"content":"b","role":"assistant"},{"content":"c","role":"user"}]`,
	},
	{
		"next to text",
		[]*genai.Content{{Role: "user", Parts: []*genai.Part{{}, {Text: "a"}}}},
		`[{"parts":[{"text":"a"}],"role":"user"}]`, `[{"content":"a","role":"user"}]`,
	},
	{
		"nothing else left",
		[]*genai.Content{model.UserText("a"), model.ModelText(""), model.UserText("c")},
		`[{"parts":[{"text":"a"}],"role":"user"},{"parts":[{"text":"c"}],"role":"user"}]`,
		`[{"content":"a","role":"user"},{"content":"c","role":"user"}]`,
	},
	{
		"signature",
		[]*genai.Content{
			model.UserText("a"),
			{Role: "model", Parts: []*genai.Part{{Text: "b"}, {ThoughtSignature: []byte("sign")}}},
			model.UserText("c"),
		},
		`[{"parts":[{"text":"a"}],"role":"user"},{"parts":[{"text":"b"},{"text":"","thoughtSignature":"c2lnbg=="}],"role":"model"},{"parts":[{"text":"c"}],"role":"user"}]`,
		`[{"content":"a","role":"user"},{"content":"b","role":"assistant"},{"content":"c","role":"user"}]`,
	},
	{
		"before a call",
		[]*genai.Content{
			model.UserText("a"),
			{Role: "model", Parts: []*genai.Part{{}, {FunctionCall: &genai.FunctionCall{ID: "1", Name: "f"}, ThoughtSignature: []byte("sign")}}},
			model.ModelText(""), // between a call and its answer
			replying("1:f"),
		},
		`[{"parts":[{"text":"a"}],"role":"user"},{"parts":[{"functionCall":{"id":"1","name":"f"},"thoughtSignature":"c2lnbg=="}],"role":"model"},` +
			`{"parts":[{"functionResponse":{"id":"1","name":"f","response":{"ok":true}}}],"role":"user"}]`,
		`[{"content":"a","role":"user"},{"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"f"},"id":"1","type":"function"}]},{"content":"{\"ok\":true}","role":"tool","tool_call_id":"1"}]`,
	},
	{
		"last word",
		[]*genai.Content{model.UserText("a"), model.ModelText("b"), model.UserText("")},
		`[{"parts":[{"text":"a"}],"role":"user"},{"parts":[{"text":"b"}],"role":"model"},{"parts":[{"text":"Continue with the previous request. If nothing is left to do, provide a summary."}],"role":"user"}]`,
		`[{"content":"a","role":"user"},{"content":"b","role":"assistant"},{"content":"Continue with the previous request. If nothing is left to do, provide a summary.","role":"user"}]`,
	},
}

// Empty texts, and contents that have nothing else, are never sent to a model. A part with a
// signature keeps its empty text. Otherwise Gemini rejects the request with 400, and every later
// turn in the session.
func TestEmptyParts(t *testing.T) {
	for _, tt := range emptyParts {
		t.Run(tt.name, func(t *testing.T) {
			req := modeltest.ScriptInput("b", false)
			req.Contents = tt.contents
			before, err := json.Marshal(tt.contents)
			if err != nil {
				t.Fatal(err)
			}
			service := modeltest.NewFake(t)
			service.Enqueue(fakegemini.Text("fine"))
			chat, fake := modeltest.FakeOpenAI(t, fakeopenai.Reply{Chunks: []string{"fine"}})
			for name, llm := range map[string]model.LLM{"gemini": gemini.New("gemini-x", modeltest.FakeOptions(service)), "openai": chat} {
				got, err := modeltest.Collect(llm.Generate(t.Context(), req))
				if err != nil || cmp.Diff([]string{"fine"}, modeltest.Outline(got)) != "" {
					t.Fatalf("%s: Generate() = %v, %v, want fine", name, modeltest.Outline(got), err)
				}
			}
			if diff := cmp.Diff(tt.gemini, modeltest.BodyOf(t, service.Requests()[0].Body["contents"])); diff != "" {
				t.Errorf("contents sent to Gemini (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.openai, modeltest.BodyOf(t, fake.Requests()[0].Body["messages"])); diff != "" {
				t.Errorf("messages sent to OpenAI (-want +got):\n%s", diff)
			}
			if after, err := json.Marshal(tt.contents); err != nil || string(after) != string(before) {
				t.Errorf("the conversation itself was changed to %s, %v", after, err)
			}
		})
	}
}

// An empty instruction is not sent.
func TestEmptyInstruction(t *testing.T) {
	service := modeltest.NewFake(t)
	req := modeltest.ScriptInput("b", false)
	req.Config = &genai.GenerateContentConfig{SystemInstruction: &genai.Content{Parts: []*genai.Part{{}}}}
	if _, err := modeltest.Collect(gemini.New("gemini-x", modeltest.FakeOptions(service)).Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	if got := service.Requests()[0].Body["systemInstruction"]; got != nil {
		t.Errorf("systemInstruction = %v, want none", got)
	}
}

// Cached contents keep signatures.
func TestSignatureInCache(t *testing.T) {
	service := modeltest.NewFake(t)
	req := modeltest.ScriptInput("b", false)
	req.Contents = emptyParts[3].contents
	req.Cache = &model.CacheRequest{CacheConfig: model.CacheConfig{TTL: time.Minute, Intervals: 3}, PromptTokens: 10000}
	llm := gemini.New("gemini-x", modeltest.FakeOptions(service))
	for range 2 {
		answers, err := modeltest.Collect(llm.Generate(t.Context(), req))
		if err != nil {
			t.Fatal(err)
		}
		req.Cache.Metadata = answers[0].CacheMetadata
		req.Contents = append(req.Contents[:3:3], model.ModelText("more"), model.UserText("d"))
	}
	for _, r := range service.Requests() {
		if want := `{"text":"","thoughtSignature":"c2lnbg=="}`; r.Body["ttl"] != nil && !strings.Contains(modeltest.BodyOf(t, r.Body["contents"]), want) {
			t.Errorf("the cache was made of %s, want %s in it", modeltest.BodyOf(t, r.Body["contents"]), want)
		}
	}
	if len(service.Caches()) != 1 {
		t.Errorf("%d caches were made, want 1", len(service.Caches()))
	}
}

// calling returns model content with calls, each ID:NAME.
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
			req := modeltest.ScriptInput("b", false)
			req.Contents = tt.contents
			before := len(tt.contents)
			service := modeltest.NewFake(t)
			service.Enqueue(fakegemini.Text("fine"))
			chat, _ := modeltest.FakeOpenAI(t, fakeopenai.Reply{Chunks: []string{"fine"}})
			for name, llm := range map[string]model.LLM{
				"gemini": gemini.New("gemini-x", modeltest.FakeOptions(service)),
				"openai": chat,
			} {
				got, err := modeltest.Collect(llm.Generate(t.Context(), req))
				if err != nil || cmp.Diff([]string{"fine"}, modeltest.Outline(got)) != "" {
					t.Errorf("%s: Generate() = %v, %v, want fine", name, modeltest.Outline(got), err)
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
	fake := modeltest.NewFake(t)
	req := modeltest.ScriptInput("b", false)
	req.Contents = openCalls[2].contents
	if _, err := modeltest.Collect(gemini.New("gemini-x", modeltest.FakeOptions(fake)).Generate(t.Context(), req)); err != nil {
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

package openai_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/wing/openai"
)

// Reasoning models at OpenAI's own address use the Responses API; other models, proxies
// and services use chat completions, unless the model has an api.
func TestOpenAIChoosesAPI(t *testing.T) {
	const ok = `{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "status": "completed", "output": []}`
	for src, want := range map[string]string{
		"{provider: openai, model: gpt-4o}":                                                       "https://api.openai.com/v1/chat/completions",
		"{provider: openai, model: gpt-5}":                                                        "https://api.openai.com/v1/responses",
		"{provider: openai, model: o4-mini}":                                                      "https://api.openai.com/v1/responses",
		"{provider: openai, model: gpt-5-chat-latest}":                                            "https://api.openai.com/v1/chat/completions",
		"{provider: openai, model: gpt-5, api: chat}":                                             "https://api.openai.com/v1/chat/completions",
		"{provider: openai, model: gpt-4o, api: responses}":                                       "https://api.openai.com/v1/responses",
		"{provider: openai, model: gpt-5, base_url: 'http://proxy:1/v1'}":                         "http://proxy:1/v1/chat/completions",
		"{provider: azure, model: gpt-5, api: responses, base_url: 'http://azure:1', api_key: k}": "http://azure:1/openai/v1/responses",
		"{provider: openai_compatible, model: gpt-5}":                                             "https://api.openai.com/v1/chat/completions",
	} {
		llm, r := buildRecorded(t, src)
		r.answer = ok
		if _, err := modeltest.Ask(t, llm, false); err != nil || r.url != want {
			t.Errorf("%s calls %s, %v, want %s", src, r.url, err, want)
		}
	}
}

// A request contains the whole conversation and all settings that the API has.
func TestResponsesRequest(t *testing.T) {
	for file, name := range map[string]string{"responses_plain.json": "gpt-4o", "responses_reasoning.json": "gpt-5"} {
		var log bytes.Buffer
		llm, fake := modeltest.FakeResponses(t, name, &openai.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		req := modeltest.WholeRequest("openai_compatible")
		req.Contents[0].Parts = append(req.Contents[0].Parts,
			&genai.Part{InlineData: &genai.Blob{MIMEType: "application/pdf", Data: []byte(modeltest.PdfData), DisplayName: "a.pdf"}},
			&genai.Part{FileData: &genai.FileData{MIMEType: "image/jpeg", FileURI: "https://example.com/a.jpg"}},
			&genai.Part{FileData: &genai.FileData{MIMEType: "application/pdf", FileURI: "https://example.com/a.pdf"}},
			&genai.Part{FileData: &genai.FileData{MIMEType: "application/pdf", FileURI: "file-1"}},
			&genai.Part{FileData: &genai.FileData{MIMEType: "image/png", FileURI: "file-2"}})
		req.Config.ThinkingConfig.IncludeThoughts = true
		if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
		modeltest.CheckGolden(t, *update, file, fake.Requests()[0].Body)
		want := map[string]string{"gpt-4o": "[seed stopSequences thinkingConfig topK]", "gpt-5": "[seed stopSequences temperature topK topP]"}[name]
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s: log = %s, want the settings %s", name, &log, want)
		}
	}
}

// Streamed and other responses have the same result.
func TestResponsesAnswer(t *testing.T) {
	usage := map[string]any{
		"input_tokens": 10, "output_tokens": 7, "total_tokens": 17,
		"input_tokens_details": map[string]any{"cached_tokens": 4}, "output_tokens_details": map[string]any{"reasoning_tokens": 2},
	}
	mark := func(fields ...string) map[string]any {
		m := map[string]any{"vendor": "openai_compatible", "model": "gpt-5"}
		for i := 0; i < len(fields); i += 2 {
			m[fields[i]] = fields[i+1]
		}
		return m
	}
	for _, tt := range []struct {
		name  string
		model string
		reply fakeopenai.Reply
		want  *model.Response
	}{
		{
			"reasoning, text, calls and usage", "gpt-5",
			fakeopenai.Reply{
				Thought: "Hm.", Chunks: []string{"Look", "ing."}, Usage: usage,
				Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: `{"at": "a b"}`}, {ID: "c2", Name: "look", Arguments: "{}"}},
			},
			&model.Response{
				Content: &genai.Content{Role: "model", Parts: []*genai.Part{
					{Text: "Hm.", Thought: true, ThoughtSignature: []byte("gAAAA-1"), PartMetadata: mark("id", "rs_1", "field", "encrypted_content")},
					{Text: "Looking.", PartMetadata: mark("id", "msg_2")},
					{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "look", Args: map[string]any{"at": "a b"}}, PartMetadata: mark("id", "fc_3")},
					{FunctionCall: &genai.FunctionCall{ID: "c2", Name: "look", Args: map[string]any{}}, PartMetadata: mark("id", "fc_4")},
				}},
				FinishReason: genai.FinishReasonStop, ModelVersion: "fake-openai",
				UsageMetadata: &genai.GenerateContentResponseUsageMetadata{
					PromptTokenCount: 10, CandidatesTokenCount: 5, ThoughtsTokenCount: 2, CachedContentTokenCount: 4, TotalTokenCount: 17,
				},
			},
		},
		{
			"reasoning without a summary", "gpt-5",
			fakeopenai.Reply{Reasoning: true, Chunks: []string{"Yes"}},
			&model.Response{
				Content: &genai.Content{Role: "model", Parts: []*genai.Part{
					{Thought: true, ThoughtSignature: []byte("gAAAA-1"), PartMetadata: mark("id", "rs_1", "field", "encrypted_content")},
					{Text: "Yes", PartMetadata: mark("id", "msg_2")},
				}},
				FinishReason: genai.FinishReasonStop, ModelVersion: "fake-openai",
			},
		},
		{
			"a model that does not reason", "gpt-4o",
			fakeopenai.Reply{Chunks: []string{"Yes"}},
			&model.Response{Content: &genai.Content{Role: "model", Parts: []*genai.Part{{Text: "Yes"}}}, FinishReason: genai.FinishReasonStop, ModelVersion: "fake-openai"},
		},
		{
			"nothing", "gpt-5",
			fakeopenai.Reply{},
			&model.Response{Content: &genai.Content{Role: "model"}, FinishReason: genai.FinishReasonStop, ModelVersion: "fake-openai"},
		},
		{
			"a refusal", "gpt-5",
			fakeopenai.Reply{Refusal: "I will not."},
			&model.Response{ErrorCode: "SAFETY", ErrorMessage: "I will not.", FinishReason: genai.FinishReasonSafety, ModelVersion: "fake-openai"},
		},
		{
			"no tokens left", "gpt-5",
			fakeopenai.Reply{Finish: "max_output_tokens"},
			&model.Response{ErrorCode: "MAX_TOKENS", ErrorMessage: "Maximum tokens reached", FinishReason: genai.FinishReasonMaxTokens, ModelVersion: "fake-openai"},
		},
		{
			"filtered", "gpt-5",
			fakeopenai.Reply{Finish: "content_filter"},
			&model.Response{ErrorCode: "SAFETY", ErrorMessage: "The service filtered the response for its content", FinishReason: genai.FinishReasonSafety, ModelVersion: "fake-openai"},
		},
		{
			"a call that was cut", "gpt-5",
			fakeopenai.Reply{Finish: "max_output_tokens", Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: `{"at": "a`}}},
			&model.Response{ErrorCode: "MAX_TOKENS", ErrorMessage: `arguments of look exceed the limit of output tokens: {"at": "a`, FinishReason: genai.FinishReasonMaxTokens, ModelVersion: "fake-openai"},
		},
		{
			"arguments that are not an object", "gpt-5",
			fakeopenai.Reply{Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: `[1]`}}},
			&model.Response{
				ErrorCode: "MALFORMED_FUNCTION_CALL", ErrorMessage: `arguments of look must be a JSON object: [1]`,
				FinishReason: genai.FinishReasonMalformedFunctionCall, ModelVersion: "fake-openai",
			},
		},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(tt.name+"/"+modeltest.Mode(stream), func(t *testing.T) {
				llm, _ := modeltest.FakeResponses(t, tt.model, nil, tt.reply)
				got, err := modeltest.Ask(t, llm, stream)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got[len(got)-1]); diff != "" {
					t.Errorf("the whole answer (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Text, thoughts and calls are streamed as they arrive.
func TestResponsesStream(t *testing.T) {
	llm, _ := modeltest.FakeResponses(t, "gpt-5", nil, fakeopenai.Reply{Thought: "Hm.", Chunks: []string{"a ", "b"}, Calls: []fakeopenai.Call{{ID: "c", Name: "look", Arguments: "{}"}}})
	got, err := modeltest.Ask(t, llm, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"+", "+a ", "+b", "+look()", "a blook()"}, modeltest.Outline(got)); diff != "" || got[0].Content.Parts[0].Text != "Hm." {
		t.Errorf("responses (-want +got):\n%s", diff)
	}
}

// itemTypes formats a request's items, with their IDs.
func itemTypes(body map[string]any) []string {
	var types []string
	for _, in := range body["input"].([]any) {
		item := in.(map[string]any)
		id, _ := item["id"].(string)
		types = append(types, strings.TrimSpace(item["type"].(string)+" "+id))
	}
	return types
}

// Encrypted reasoning goes back to the model that wrote it, with what it led to. Another
// model gets neither the reasoning nor the IDs; nor does this one if what followed the
// reasoning was changed. The fake refuses everything else.
func TestResponsesReasoning(t *testing.T) {
	first := fakeopenai.Reply{Thought: "Hm.", Chunks: []string{"Wait."}, Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: "{}"}}}
	bare := []string{"message", "message", "function_call", "function_call_output"}
	for _, tt := range []struct {
		name, model, thoughts string
		change                func(c *genai.Content)
		want                  []string
	}{
		{"same model", "gpt-5", "", nil, []string{"message", "reasoning rs_1", "message msg_2", "function_call fc_3", "function_call_output"}},
		{"another model", "gpt-5-mini", "", nil, bare},
		{"a model that does not reason", "gpt-4o", "", nil, bare},
		{"thoughts dropped", "gpt-5", "drop", nil, bare},
		{"reasoning without a signature", "gpt-5", "", func(c *genai.Content) { c.Parts[0].ThoughtSignature = nil }, bare},
		{"text changed by a callback", "gpt-5", "", func(c *genai.Content) { c.Parts[1] = &genai.Part{Text: "Stop."} }, bare},
		{"text removed", "gpt-5", "", func(c *genai.Content) { c.Parts = append(c.Parts[:1:1], c.Parts[2]) }, []string{"message", "reasoning rs_1", "function_call fc_3", "function_call_output"}},
		{"thought moved to the end", "gpt-5", "", func(c *genai.Content) { c.Parts = append(c.Parts[1:3:3], c.Parts[0]) }, bare},
		{"equal IDs, as no service sends them", "gpt-5", "drop", func(c *genai.Content) { c.Parts[1].PartMetadata["id"] = "rs_1" }, bare},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(tt.name+"/"+modeltest.Mode(stream), func(t *testing.T) {
				llm, fake := modeltest.FakeResponses(t, "gpt-5", nil, first)
				got, err := modeltest.Ask(t, llm, stream)
				if err != nil {
					t.Fatal(err)
				}
				content := got[len(got)-1].Content
				if tt.change != nil {
					tt.change(content)
				}
				next := modeltest.ConnectResponses(fake, tt.model, &openai.Options{Thoughts: tt.thoughts})
				if _, err := modeltest.Collect(next.Generate(t.Context(), modeltest.ContinueTurn(content))); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, itemTypes(fake.Requests()[1].Body)); diff != "" {
					t.Errorf("items (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Reasoning that the service cannot decrypt, as after an account change, does not end the session:
// the request is sent again without it.
func TestResponsesForgottenReasoning(t *testing.T) {
	for name, change := range map[string]func(c *genai.Content){
		"another account": func(c *genai.Content) { c.Parts[0].ThoughtSignature = []byte("gAAAA-other") },
		"unknown ID":      func(c *genai.Content) { c.Parts[0].PartMetadata["id"] = "rs_other" },
	} {
		llm, fake := modeltest.FakeResponses(t, "gpt-5", nil, fakeopenai.Reply{Reasoning: true, Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: "{}"}}})
		got, err := modeltest.Ask(t, llm, false)
		if err != nil {
			t.Fatal(err)
		}
		change(got[0].Content)
		if _, err := modeltest.Collect(llm.Generate(t.Context(), modeltest.ContinueTurn(got[0].Content))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]string{"message", "function_call", "function_call_output"}, itemTypes(fake.Requests()[2].Body)); diff != "" {
			t.Errorf("%s: items (-want +got):\n%s", name, diff)
		}
	}
}

// Each failure has a message and is retryable or not.
func TestResponsesFailures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		reply  fakeopenai.Reply
		stream bool
		want   string
		again  bool
	}{
		{"overloaded", fakeopenai.Reply{Status: 429, Message: "Slow down."}, false, "model: 429 RESOURCE_EXHAUSTED: Slow down.", true},
		{"a failed response", fakeopenai.Reply{Raw: `{"status":"failed","error":{"code":"server_error","message":"sorry"},"output":[]}`}, false, "model: 500 INTERNAL: sorry", true},
		{"a cancelled response", fakeopenai.Reply{Raw: `{"status":"cancelled","error":null,"output":[]}`}, false, "model: 500 INTERNAL: the response failed without an error", true},
		{"another API", fakeopenai.Reply{Raw: `{"choices":[]}`}, false, `model: malformed response from gpt-5: no status in "{\"choices\":[]}"`, true},
		{"a failed stream", fakeopenai.Reply{Chunks: []string{"a"}, Raw: `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}` + "\n\n"}, true, "model: 429 RESOURCE_EXHAUSTED: slow", true},
		{"an error event", fakeopenai.Reply{Raw: `data: {"type":"error","code":"server_error","message":"gone","param":null}` + "\n\n"}, true, "model: 500 INTERNAL: gone", true},
		{"an error of the input", fakeopenai.Reply{Raw: `data: {"type":"error","error":{"code":"invalid_image","message":"no image"}}` + "\n\n"}, true, "model: 400 INVALID_ARGUMENT: no image", false},
		{"an event without a type", fakeopenai.Reply{Raw: "data: {}\n\n"}, true, "model: 500 INTERNAL: the service sent an error without a message", true},
		{"a completion without a response", fakeopenai.Reply{Raw: `data: {"type":"response.completed"}` + "\n\n"}, true, "model: event response.completed has no response", true},
		{"half a call", fakeopenai.Reply{Calls: []fakeopenai.Call{{ID: "c", Name: "look", Arguments: `{"at": "a"}`}}, Raw: "\n"}, true, "model: no response from gpt-5: stream ended before the response was complete", true},
		{"a stream that is cut", fakeopenai.Reply{Chunks: []string{"a"}, Raw: "data: [DONE]\n\n"}, true, "model: no response from gpt-5: stream ended before the response was complete", true},
		{"garbage", fakeopenai.Reply{Raw: "data: {\n\n"}, true, `model: malformed response from gpt-5: unexpected end of JSON input in "{"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, _ := modeltest.FakeResponses(t, "gpt-5", nil, tt.reply)
			_, err := modeltest.Ask(t, llm, tt.stream)
			failed, ok := errors.AsType[*model.Error](err)
			if !ok || failed.Error() != tt.want || failed.Retryable() != tt.again {
				t.Errorf("Generate() = %v, want %s, retryable %v", err, tt.want, tt.again)
			}
		})
	}
}

// Some services send the items only as events, and not again with the response.
func TestResponsesItemsOfEvents(t *testing.T) {
	llm, _ := modeltest.FakeResponses(t, "gpt-5", nil, fakeopenai.Reply{Raw: `data: {"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":"Yes"}]}}` + "\n\n" +
		`data: {"type":"response.completed","response":{"status":"completed","output":[]}}` + "\n\n"})
	got, err := modeltest.Ask(t, llm, true)
	if err != nil || modeltest.Outline(got)[0] != "Yes" {
		t.Errorf("Generate() = %q, %v, want Yes", modeltest.Outline(got), err)
	}
}

package openai_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/wing/openai"
)

// A recorder is a transport that records the last request's body and URL and answers with a body.
type recorder struct {
	answer string
	url    string
	body   map[string]any
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	r.url, r.body = req.URL.String(), nil
	if err := json.Unmarshal(raw, &r.body); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(r.answer))}, nil
}

const okAnswer = `{"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]}`

// buildRecorded builds app.yaml's model and records its requests. The environment has the keys for
// all services.
func buildRecorded(t *testing.T, src string) (model.LLM, *recorder) {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(src))
	kind, _ := modeltest.AllKinds().Lookup(n.Get("provider").Value)
	plan, more := kind.Decode(n)
	if err := append(ds, more...).Err(); err != nil {
		t.Fatal(err)
	}
	r := &recorder{answer: okAnswer}
	lookup := func(name string) (string, bool) { return "test-key-1234", strings.HasSuffix(name, "_KEY") }
	llm, err := plan.Build(t.Context(), provider.Env{Lookup: lookup, HTTP: &http.Client{Transport: r}})
	if err != nil {
		t.Fatal(err)
	}
	return llm, r
}

// Each service gets the conversation and the settings in its own form.
func TestChatRequests(t *testing.T) {
	for _, tt := range []struct{ file, own, src string }{
		{"chat_openai.json", "openai", "{provider: openai, model: gpt-4o}"},
		{"chat_azure_reasoning.json", "azure", "{provider: azure, model: gpt-5.1, base_url: 'https://r.openai.azure.com', api_key: k}"},
		{"chat_mistral.json", "mistral", "{provider: mistral, model: mistral-large}"},
		{"chat_deepseek.json", "deepseek", "{provider: deepseek, model: deepseek-chat}"},
		{"chat_openrouter.json", "openrouter", "{provider: openrouter, model: qwen/qwen3}"},
		{"chat_google.json", "openai_compatible", "{provider: openai_compatible, model: gemini-3-pro, base_url: 'https://generativelanguage.googleapis.com/v1beta/openai', api_key: k}"},
		{"chat_litellm_gemini.json", "openai_compatible", "{provider: openai_compatible, model: gemini/gemini-3-pro, base_url: 'http://litellm:4000'}"},
		{"chat_compatible.json", "openai_compatible", "{provider: openai_compatible, model: qwen3, base_url: 'http://vllm:8000/v1', thoughts: always}"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			llm, r := buildRecorded(t, tt.src)
			if _, err := modeltest.Collect(llm.Generate(t.Context(), modeltest.WholeRequest(tt.own))); err != nil {
				t.Fatal(err)
			}
			modeltest.CheckGolden(t, *update, tt.file, r.body)
		})
	}
}

// A thinking config becomes the service's own setting. Budgets are levels where there
// are only levels.
func TestChatThinking(t *testing.T) {
	const (
		gpt51      = "{provider: azure, model: gpt-5.1, base_url: 'https://r.openai.azure.com', api_key: k}"
		gpt5       = "{provider: azure, model: gpt-5, base_url: 'https://r.openai.azure.com', api_key: k}"
		o3         = "{provider: azure, model: o3, base_url: 'https://r.openai.azure.com', api_key: k}"
		groq       = "{provider: groq, model: qwen3}"
		deepseek   = "{provider: deepseek, model: deepseek-chat}"
		openrouter = "{provider: openrouter, model: x/y}"
		google     = "{provider: openai_compatible, model: gemini-3-pro, base_url: 'https://generativelanguage.googleapis.com/v1beta/openai'}"
	)
	level := func(l genai.ThinkingLevel) genai.ThinkingConfig { return genai.ThinkingConfig{ThinkingLevel: l} }
	budget := func(n int32) genai.ThinkingConfig { return genai.ThinkingConfig{ThinkingBudget: &n} }
	for _, tt := range []struct {
		src    string
		config genai.ThinkingConfig
		key    string
		want   string
	}{
		{gpt5, level(genai.ThinkingLevelHigh), "reasoning_effort", `"high"`},
		{gpt5, level(genai.ThinkingLevelMinimal), "reasoning_effort", `"minimal"`},
		{gpt51, level(genai.ThinkingLevelMinimal), "reasoning_effort", `"none"`},
		{gpt51, budget(0), "reasoning_effort", `"none"`},
		{o3, budget(0), "reasoning_effort", `"low"`},
		{gpt5, genai.ThinkingConfig{IncludeThoughts: true}, "reasoning_effort", `null`},
		{groq, budget(-1), "reasoning_effort", `"medium"`},
		{groq, budget(1024), "reasoning_effort", `"low"`},
		{groq, budget(8192), "reasoning_effort", `"medium"`},
		{groq, budget(8193), "reasoning_effort", `"high"`},
		{deepseek, budget(0), "thinking", `{"type":"disabled"}`},
		{deepseek, level(genai.ThinkingLevelLow), "thinking", `{"type":"enabled"}`},
		{openrouter, level(genai.ThinkingLevelLow), "reasoning", `{"effort":"low"}`},
		{openrouter, budget(2000), "reasoning", `{"max_tokens":2000}`},
		{openrouter, budget(0), "reasoning", `{"enabled":false}`},
		{openrouter, budget(-1), "reasoning", `{"enabled":true}`},
		{google, genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: genai.Ptr(int32(800))}, "extra_body", `{"google":{"thinking_config":{"include_thoughts":true,"thinking_budget":800}}}`},
	} {
		llm, r := buildRecorded(t, tt.src)
		req := modeltest.ScriptInput("hi", false)
		req.Config.ThinkingConfig = &tt.config
		if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(r.body[tt.key]); string(got) != tt.want {
			t.Errorf("%s with %+v: %s = %s, want %s", tt.src, tt.config, tt.key, got, tt.want)
		}
	}
}

// A response schema is strict if it can be: closed objects with all properties required.
func TestChatSchema(t *testing.T) {
	for _, tt := range []struct{ name, schema, want string }{
		{
			"nested", `{"title": "The answer!", "type": "object", "properties": {"b": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}}, "a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["b"]}`,
			`{"name":"The_answer","schema":{"additionalProperties":false,"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]},"b":{"items":{"additionalProperties":false,"properties":{"x":{"type":"string"}},"required":["x"],"type":"object"},"type":"array"}},"required":["a","b"],"title":"The answer!","type":"object"},"strict":true}`,
		},
		{
			"reference", `{"type": "object", "properties": {"a": {"$ref": "#/$defs/a", "description": "An a."}}, "$defs": {"a": {"type": "object", "properties": {}}}}`,
			`{"name":"response","schema":{"$defs":{"a":{"additionalProperties":false,"properties":{},"required":[],"type":"object"}},"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"],"type":"object"},"strict":true}`,
		},
		{"any properties", `{"type": "object", "properties": {"a": {"type": "object"}}}`, `{"name":"response","schema":{"properties":{"a":{"type":"object"}},"type":"object"}}`},
		{"open object", `{"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}`, `{"name":"response","schema":{"additionalProperties":{"type":"string"},"properties":{},"type":"object"}}`},
		{"combined", `{"type": "object", "properties": {"a": {"oneOf": []}}}`, `{"name":"response","schema":{"properties":{"a":{"oneOf":[]}},"type":"object"}}`},
		{"list", `{"type": "array", "items": {"type": "string"}}`, `{"name":"response","schema":{"items":{"type":"string"},"type":"array"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, r := buildRecorded(t, "{provider: openai, model: gpt-4o}")
			req := modeltest.ScriptInput("hi", false)
			var schema any
			if err := json.Unmarshal([]byte(tt.schema), &schema); err != nil {
				t.Fatal(err)
			}
			req.Config.ResponseJsonSchema = schema
			if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(r.body["response_format"].(map[string]any)["json_schema"])
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("json_schema (-want +got):\n%s", diff)
			}
		})
	}
}

// Gemini 3 rejects a step whose first call is not signed, such as one from another model or a
// fallback: through an OpenAI endpoint as well, it gets Google's placeholder. Older models and
// other vendors get none.
func TestChatUnsignedCalls(t *testing.T) {
	const calls = `{"role":"assistant","tool_calls":[{%s"function":{"arguments":"{}","name":"look"},"id":"c1",%s"type":"function"},{"function":{"arguments":"{}","name":"look"},"id":"c2","type":"function"}]}`
	placeholder := `{"thought_signature":"` + base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator")) + `"}`
	extra, fields := `"extra_content":{"google":`+placeholder+`},`, `"provider_specific_fields":`+placeholder+`,`
	for _, tt := range []struct{ name, src, want string }{
		{"at Google", "{provider: openai_compatible, model: gemini-3-pro, base_url: 'https://generativelanguage.googleapis.com/v1beta/openai'}", fmt.Sprintf(calls, extra, "")},
		{"through LiteLLM", "{provider: openai_compatible, model: gemini/gemini-3-pro, base_url: 'http://litellm:4000'}", fmt.Sprintf(calls, extra, fields)},
		{"Gemini 2.5", "{provider: openai_compatible, model: gemini-2.5-pro, base_url: 'https://generativelanguage.googleapis.com/v1beta/openai'}", fmt.Sprintf(calls, "", "")},
		{"another vendor", "{provider: groq, model: qwen3}", fmt.Sprintf(calls, "", "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, r := buildRecorded(t, tt.src)
			req := modeltest.ScriptInput("hi", false)
			claude := map[string]any{"vendor": "anthropic", "model": "claude-x"}
			req.Contents = append(req.Contents, &genai.Content{Role: "model", Parts: []*genai.Part{
				{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "look"}, ThoughtSignature: []byte("foreign"), PartMetadata: claude},
				{FunctionCall: &genai.FunctionCall{ID: "c2", Name: "look"}},
			}}, &genai.Content{Role: "user", Parts: []*genai.Part{
				{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "look", Response: map[string]any{"n": 1}}},
				{FunctionResponse: &genai.FunctionResponse{ID: "c2", Name: "look", Response: map[string]any{"n": 2}}},
			}})
			if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			sent, _ := json.Marshal(r.body["messages"].([]any)[1])
			if diff := cmp.Diff(tt.want, string(sent)); diff != "" {
				t.Errorf("the assistant message (-want +got):\n%s", diff)
			}
		})
	}
}

// Signatures and signed thoughts go back to the model that wrote them, in their own form,
// whether they were streamed or not, and to no other.
func TestChatSignatures(t *testing.T) {
	signature := base64.StdEncoding.EncodeToString([]byte("sig"))
	call := `"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}`
	for _, tt := range []struct {
		name, src string
		delta     string // in the response
		want      string // the next request's assistant message
	}{
		{
			"Gemini at Google", "{provider: openai_compatible, model: gemini-3-pro, base_url: 'https://generativelanguage.googleapis.com/v1beta/openai'}",
			`{"tool_calls": [{` + call + `, "extra_content": {"google": {"thought_signature": "` + signature + `"}}}]}`,
			`{"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"` + signature + `"}},"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
		{
			"Gemini through LiteLLM", "{provider: openai_compatible, model: gemini-3-pro, base_url: 'http://litellm:4000'}",
			`{"tool_calls": [{` + call + `, "provider_specific_fields": {"thought_signature": "` + signature + `"}}]}`,
			`{"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"` + signature + `"}},"function":{"arguments":"{}","name":"look"},"id":"c1","provider_specific_fields":{"thought_signature":"` + signature + `"},"type":"function"}]}`,
		},
		{
			"signature in the ID", "{provider: openai_compatible, model: gemini-3-pro, base_url: 'https://generativelanguage.googleapis.com/v1beta/openai'}",
			`{"tool_calls": [{` + strings.Replace(call, "c1", "c1__thought__"+signature, 1) + `}]}`,
			`{"role":"assistant","tool_calls":[{"extra_content":{"google":{"thought_signature":"` + signature + `"}},"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
		{
			"OpenRouter", "{provider: openrouter, model: x/y}",
			`{"reasoning": "Hm.", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s", "format": "f"}, {"type": "reasoning.encrypted", "index": 1, "data": "e"}], "tool_calls": [{` + call + `}]}`,
			`{"reasoning_details":[{"format":"f","index":0,"signature":"s","text":"Hm.","type":"reasoning.text"},{"data":"e","index":1,"type":"reasoning.encrypted"}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
		{
			"OpenRouter, encrypted only", "{provider: openrouter, model: x/y}",
			`{"reasoning_details": [{"type": "reasoning.encrypted", "data": "e"}], "tool_calls": [{` + call + `}]}`,
			`{"reasoning_details":[{"data":"e","type":"reasoning.encrypted"}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
		{
			"Claude through LiteLLM", "{provider: openai_compatible, model: claude, base_url: 'http://litellm:4000'}",
			`{"reasoning_content": "Hm.", "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}], "tool_calls": [{` + call + `}]}`,
			`{"role":"assistant","thinking_blocks":[{"signature":"s","thinking":"Hm.","type":"thinking"}],"tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
		{
			"DeepSeek", "{provider: deepseek, model: deepseek-chat}",
			`{"reasoning_content": "Hm.", "tool_calls": [{` + call + `}]}`,
			`{"reasoning_content":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
		{
			"another name of thoughts", "{provider: openai_compatible, model: m, base_url: 'http://vllm:8000', thoughts: tools}",
			`{"reasoning": "Hm.", "tool_calls": [{` + call + `}]}`,
			`{"reasoning":"Hm.","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
		{
			"thoughts that are not signed", "{provider: openai_compatible, model: m, base_url: 'http://vllm:8000'}",
			`{"reasoning": "Hm.", "tool_calls": [{` + call + `}]}`,
			`{"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`,
		},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(tt.name+"/"+modeltest.Mode(stream), func(t *testing.T) {
				llm, r := buildRecorded(t, tt.src)
				r.answer = `{"choices": [{"message": ` + tt.delta + `, "finish_reason": "tool_calls"}]}`
				if stream {
					r.answer = `data: {"choices": [{"delta": ` + compactJSON(t, tt.delta) + "}]}\n\n" + `data: {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}` + "\n\n"
				}
				got, err := modeltest.Ask(t, llm, stream)
				if err != nil {
					t.Fatal(err)
				}
				req := modeltest.ScriptInput("hi", false)
				req.Contents = append(req.Contents, got[len(got)-1].Content, &genai.Content{Role: "user", Parts: []*genai.Part{
					{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "look", Response: map[string]any{"n": 1}}},
				}})
				r.answer = okAnswer
				if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
					t.Fatal(err)
				}
				sent, _ := json.Marshal(r.body["messages"].([]any)[1])
				if diff := cmp.Diff(tt.want, string(sent)); diff != "" {
					t.Errorf("the assistant message (-want +got):\n%s", diff)
				}
				other, to := buildRecorded(t, "{provider: openai, model: gpt-4o}")
				if _, err := modeltest.Collect(other.Generate(t.Context(), req)); err != nil {
					t.Fatal(err)
				}
				bare := `{"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c1","type":"function"}]}`
				if sent, _ = json.Marshal(to.body["messages"].([]any)[1]); string(sent) != bare {
					t.Errorf("another service gets %s, want %s", sent, bare)
				}
			})
		}
	}
}

func compactJSON(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Signed thoughts' chunks become the items that the service would have sent at once.
func TestChatSignedChunks(t *testing.T) {
	llm, r := buildRecorded(t, "{provider: openrouter, model: x/y}")
	for _, details := range []string{
		`{"type":"reasoning.text","index":0,"text":"One ","signature":null}`, `{"type":"reasoning.text","index":0,"text":"two.","signature":"s1"}`,
		`{"type":"reasoning.text","index":1,"text":"Three."}`, `{"type":"reasoning.encrypted","index":2,"data":"e"}`,
	} {
		r.answer += `data: {"choices":[{"delta":{"reasoning_details":[` + details + `]}}]}` + "\n\n"
	}
	r.answer = strings.TrimPrefix(r.answer, okAnswer) + `data: {"choices":[{"delta":{"content":"ok"},"finish_reason":"stop"}]}` + "\n\n"
	got, err := modeltest.Ask(t, llm, true)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"index":0,"signature":"s1","text":"One two.","type":"reasoning.text"},{"index":1,"text":"Three.","type":"reasoning.text"},{"data":"e","index":2,"type":"reasoning.encrypted"}]`
	if parts := got[len(got)-1].Content.Parts; string(parts[0].ThoughtSignature) != want || !parts[0].Thought {
		t.Errorf("the first part is %+v, want a thought with the items %s", parts[0], want)
	}
}

// Arguments that a token limit or a broken stream cut never run.
func TestChatCutCalls(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply fakeopenai.Reply
		want  string
	}{
		{"cut arguments", fakeopenai.Reply{Calls: []fakeopenai.Call{{ID: "a", Name: "f", Arguments: `{"x": "y`}}, Finish: "length"}, `MAX_TOKENS: arguments of f exceed the limit of output tokens: {"x": "y`},
		{"no arguments yet", fakeopenai.Reply{Calls: []fakeopenai.Call{{ID: "a", Name: "f"}}, Finish: "length"}, "MAX_TOKENS: arguments of f exceed the limit of output tokens: "},
		{"malformed arguments", fakeopenai.Reply{Calls: []fakeopenai.Call{{ID: "a", Name: "f", Arguments: `[1]`}}}, "MALFORMED_FUNCTION_CALL: arguments of f must be a JSON object: [1]"},
		{"cut text", fakeopenai.Reply{Finish: "length"}, "MAX_TOKENS: Maximum tokens reached"},
	} {
		for _, stream := range []bool{false, true} {
			llm, _ := modeltest.FakeOpenAI(t, tt.reply)
			got, err := modeltest.Ask(t, llm, stream)
			if err != nil {
				t.Fatal(err)
			}
			last := got[len(got)-1]
			if text := last.ErrorCode + ": " + last.ErrorMessage; text != tt.want || last.Content != nil {
				t.Errorf("%s, stream %v: %s with content %v, want %s", tt.name, stream, text, last.Content, tt.want)
			}
		}
	}
	llm, _ := modeltest.FakeOpenAI(t, fakeopenai.Reply{Raw: `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]}` + "\n\ndata: [DONE]\n\n"})
	if _, err := modeltest.Ask(t, llm, true); modeltest.ErrorText(err) != "model: no response from gpt-x: stream ended during a call to f" {
		t.Errorf("a broken stream: %v", err)
	}
}

// Mistral's reasoning models return content as a list; a router's error is in the choice; thought
// tokens are counted in the completion or next to it.
func TestChatVariants(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{"list of content", `{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"Yes"}]},"finish_reason":"stop"}]}`, "Hm.|Yes"},
		{"error in a choice", `{"choices":[{"message":{"content":"Y"},"finish_reason":"error","error":{"code":502,"message":"gone"}}]}`, "model: 502: gone"},
		{"no resources", `{"choices":[{"message":{"content":"Y"},"finish_reason":"insufficient_system_resource"}]}`, "model: 503 UNAVAILABLE: the service has insufficient resources: insufficient_system_resource"},
		{"content of another type", `{"choices":[{"message":{"content":7}}]}`, `model: malformed response from m: content is neither a string nor a list in "{\"choices\":[{\"message\":{\"content\":7}}]}"`},
		{"thoughts counted apart", `{"choices":[{"message":{"content":"Y"}}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20}}}`, "Y 10+20+5=35, cached 0"},
		{"thoughts counted in the completion", `{"choices":[{"message":{"content":"Y"}}],"usage":{"prompt_tokens":10,"completion_tokens":25,"total_tokens":35,"completion_tokens_details":{"reasoning_tokens":20},"prompt_cache_hit_tokens":8}}`, "Y 10+20+5=35, cached 8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &recorder{answer: tt.raw}
			llm := openai.New("m", &openai.Options{BaseURL: "http://x", HTTP: &http.Client{Transport: r}, Retry: provider.RetryOptions{Attempts: 1}})
			got, err := modeltest.Ask(t, llm, false)
			text := modeltest.ErrorText(err)
			if err == nil {
				text = describeAnswer(got[0])
			}
			if text != tt.want {
				t.Errorf("Generate() = %s, want %s", text, tt.want)
			}
		})
	}
}

// describeAnswer formats parts and usage.
func describeAnswer(r *model.Response) string {
	var texts []string
	for _, p := range r.Content.Parts {
		texts = append(texts, p.Text)
	}
	text := strings.Join(texts, "|")
	if u := r.UsageMetadata; u != nil {
		text += " " + strings.Join([]string{itoa(u.PromptTokenCount), itoa(u.ThoughtsTokenCount), itoa(u.CandidatesTokenCount)}, "+") +
			"=" + itoa(u.TotalTokenCount) + ", cached " + itoa(u.CachedContentTokenCount)
	}
	return text
}

func itoa(n int32) string { b, _ := json.Marshal(n); return string(b) }

// A response to a call that was answered before, such as a long-running tool's, is text: the
// service would refuse a second response.
func TestChatLateResponse(t *testing.T) {
	llm, fake := modeltest.FakeOpenAI(t)
	req := modeltest.ScriptInput("hi", false)
	response := func(n int) *genai.Content {
		return &genai.Content{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "look", Response: map[string]any{"n": n}}}}}
	}
	req.Contents = append(req.Contents, &genai.Content{Role: "model", Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "look"}}}},
		response(1), model.ModelText("Wait."), response(2))
	if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	messages := fake.Requests()[0].Body["messages"].([]any)
	last := messages[len(messages)-1].(map[string]any)
	if last["role"] != "user" || last["content"] != `look answered: {"n":2}` {
		t.Errorf("the last message is %v", last)
	}
}

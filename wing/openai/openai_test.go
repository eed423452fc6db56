package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/openai"
)

// Connections are reused, also after a stream that continues after its last event.
func TestOpenAIKeepsConnections(t *testing.T) {
	var made atomic.Int64
	received := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "data: {\"choices\": [{\"delta\": {\"content\": \"hi\"}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n")
		_ = http.NewResponseController(w).Flush()
		<-received
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	llm := openai.New("gpt-x", &openai.Options{BaseURL: server.URL, HTTP: server.Client()})
	for range 5 {
		for resp, err := range llm.Generate(t.Context(), modeltest.ScriptInput("Hello", true)) {
			if err != nil {
				t.Fatal(err)
			}
			if !resp.Partial {
				received <- struct{}{}
			}
		}
	}
	if n := made.Load(); n != 1 {
		t.Errorf("5 streams made %d connections, want 1", n)
	}
}

// A request contains all settings that both APIs have.
func TestOpenAIRequest(t *testing.T) {
	llm, fake := modeltest.FakeOpenAI(t)
	low, seed := float32(0.5), int32(7)
	req := modeltest.ScriptInput("And now?", false)
	req.Contents = []*genai.Content{
		{Role: "user", Parts: []*genai.Part{
			{Text: "What is this?"},
			{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte(modeltest.PngData)}},
			{FileData: &genai.FileData{MIMEType: "image/jpeg", FileURI: "https://example.com/a.jpg"}},
			{InlineData: &genai.Blob{MIMEType: "text/plain; charset=utf-8", Data: []byte("notes")}},
			{InlineData: &genai.Blob{MIMEType: "audio/wav", Data: []byte{3}}},
			{InlineData: &genai.Blob{MIMEType: "application/pdf", Data: []byte(modeltest.PdfData), DisplayName: "a.pdf"}},
		}},
		{Role: "model", Parts: []*genai.Part{
			{Text: "I think.", Thought: true},
			{Text: "Let me see."},
			{FunctionCall: &genai.FunctionCall{Name: "look", Args: map[string]any{"at": "a"}}},
			{FunctionCall: &genai.FunctionCall{Name: "look", Args: nil}},
			{FunctionCall: &genai.FunctionCall{ID: "own", Name: "ask"}},
		}},
		{Role: "user", Parts: []*genai.Part{
			{FunctionResponse: &genai.FunctionResponse{Name: "look", Response: map[string]any{"n": 1}}},
			{FunctionResponse: &genai.FunctionResponse{ID: "own", Name: "ask", Response: map[string]any{"n": 2}}},
			{FunctionResponse: &genai.FunctionResponse{Name: "look", Response: map[string]any{"n": 3}}},
		}},
		{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{Name: "gone", Response: map[string]any{"n": 4}}}}},
		model.UserText("And now?"),
	}
	req.Config = &genai.GenerateContentConfig{
		SystemInstruction: model.UserText("Be kind."), Temperature: &low, TopP: &low, MaxOutputTokens: 100, StopSequences: []string{"END"}, Seed: &seed,
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: "look", Description: "Looks.", ParametersJsonSchema: map[string]any{"type": "object"}},
			{Name: "ask", Parameters: &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{"q": {Type: genai.TypeString, MaxLength: genai.Ptr(int64(9))}}}},
			{Name: "gone"},
		}}},
		ToolConfig:         &genai.ToolConfig{FunctionCallingConfig: &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny}},
		ResponseJsonSchema: map[string]any{"type": "object"}, ResponseMIMEType: "application/json",
		HTTPOptions: &genai.HTTPOptions{Headers: http.Header{"X-A": {"b"}}, ExtraBody: map[string]any{"top_k": 5}},
	}
	if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	got := fake.Requests()[0]
	if got.Key != "test-key-1234" || got.Header.Get("X-A") != "b" {
		t.Errorf("key %q, header %v", got.Key, got.Header)
	}
	var want map[string]any
	err := json.Unmarshal([]byte(`{
		"model": "gpt-x", "temperature": 0.5, "top_p": 0.5, "max_tokens": 100, "stop": ["END"], "seed": 7, "top_k": 5,
		"messages": [
			{"role": "system", "content": "Be kind."},
			{"role": "user", "content": [
				{"type": "text", "text": "What is this?"},
				{"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
				{"type": "image_url", "image_url": {"url": "https://example.com/a.jpg"}},
				{"type": "text", "text": "notes"},
				{"type": "input_audio", "input_audio": {"data": "Aw==", "format": "wav"}},
				{"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0xLjc="}}
			]},
			{"role": "assistant", "content": "Let me see.", "tool_calls": [
				{"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\":\"a\"}"}},
				{"id": "call_2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
				{"id": "own", "type": "function", "function": {"name": "ask", "arguments": "{}"}}
			]},
			{"role": "tool", "tool_call_id": "call_1", "content": "{\"n\":1}"},
			{"role": "tool", "tool_call_id": "own", "content": "{\"n\":2}"},
			{"role": "tool", "tool_call_id": "call_2", "content": "{\"n\":3}"},
			{"role": "user", "content": "gone answered: {\"n\":4}"},
			{"role": "user", "content": "And now?"}
		],
		"tools": [
			{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}},
			{"type": "function", "function": {"name": "ask", "parameters": {"type": "object", "properties": {"q": {"type": "string", "maxLength": 9}}}}},
			{"type": "function", "function": {"name": "gone", "parameters": {"type": "object", "properties": {}}}}
		],
		"tool_choice": "required",
		"response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": {"type": "object"}}}
	}`), &want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Body); diff != "" {
		t.Errorf("the request (-want +got):\n%s", diff)
	}
}

// Streamed and other responses have the same result.
func TestOpenAIAnswer(t *testing.T) {
	usage := map[string]any{
		"prompt_tokens": 10, "completion_tokens": 7, "total_tokens": 17,
		"prompt_tokens_details": map[string]any{"cached_tokens": 4}, "completion_tokens_details": map[string]any{"reasoning_tokens": 2},
	}
	for _, tt := range []struct {
		name  string
		reply fakeopenai.Reply
		want  *model.Response
	}{
		{
			"thoughts, text, calls and usage",
			fakeopenai.Reply{
				Thought: "Hm.", Chunks: []string{"Look", "ing."}, Usage: usage,
				Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: `{"at": "a b"}`}, {ID: "c2", Name: "look", Arguments: ""}},
			},
			&model.Response{
				Content: &genai.Content{Role: "model", Parts: []*genai.Part{
					{Text: "Hm.", Thought: true},
					{Text: "Looking."},
					{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "look", Args: map[string]any{"at": "a b"}}},
					{FunctionCall: &genai.FunctionCall{ID: "c2", Name: "look", Args: map[string]any{}}},
				}},
				FinishReason: genai.FinishReasonStop, ModelVersion: "fake-openai",
				UsageMetadata: &genai.GenerateContentResponseUsageMetadata{
					PromptTokenCount: 10, CandidatesTokenCount: 5, ThoughtsTokenCount: 2, CachedContentTokenCount: 4, TotalTokenCount: 17,
				},
			},
		},
		{
			"nothing",
			fakeopenai.Reply{},
			&model.Response{Content: &genai.Content{Role: "model"}, FinishReason: genai.FinishReasonStop, ModelVersion: "fake-openai"},
		},
		{
			"filtered",
			fakeopenai.Reply{Finish: "content_filter"},
			&model.Response{ErrorCode: "SAFETY", ErrorMessage: "The service filtered the response for its content", FinishReason: genai.FinishReasonSafety, ModelVersion: "fake-openai"},
		},
		{
			"a refusal",
			fakeopenai.Reply{Refusal: "I will not."},
			&model.Response{ErrorCode: "SAFETY", ErrorMessage: "I will not.", FinishReason: genai.FinishReasonSafety, ModelVersion: "fake-openai"},
		},
		{
			"arguments that are not JSON",
			fakeopenai.Reply{Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: `{"at": `}}},
			&model.Response{
				ErrorCode: "MALFORMED_FUNCTION_CALL", ErrorMessage: `arguments of look must be a JSON object: {"at":`,
				FinishReason: genai.FinishReasonMalformedFunctionCall, ModelVersion: "fake-openai",
			},
		},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(tt.name+"/"+modeltest.Mode(stream), func(t *testing.T) {
				llm, _ := modeltest.FakeOpenAI(t, tt.reply)
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

// A truncated response's finish reason is an error only for a stream, as with Gemini.
func TestOpenAITruncatedResponse(t *testing.T) {
	for stream, want := range map[bool]string{false: "Once", true: "Once!MAX_TOKENS"} {
		llm, _ := modeltest.FakeOpenAI(t, fakeopenai.Reply{Chunks: []string{"Once"}, Finish: "length"})
		got, err := modeltest.Ask(t, llm, stream)
		if err != nil || modeltest.Outline(got)[len(got)-1] != want {
			t.Errorf("stream %v: %q, %v, want %s", stream, modeltest.Outline(got), err, want)
		}
	}
}

// Each failure has a message and is retryable or not.
func TestOpenAIFailures(t *testing.T) {
	const key = "test-key-1234"
	for _, tt := range []struct {
		name   string
		reply  fakeopenai.Reply
		stream bool
		want   string
		again  bool
	}{
		{"overloaded", fakeopenai.Reply{Status: 429, Message: "Slow down."}, false, "model: 429 RESOURCE_EXHAUSTED: Slow down.", true},
		{"a wrong key, repeated", fakeopenai.Reply{Status: 401, Message: "Incorrect API key: " + key}, false, "model: 401 UNAUTHENTICATED: Incorrect API key: ***", false},
		{"an error that is a string", fakeopenai.Reply{Status: 500, Raw: `{"error": "out of memory"}`}, false, "model: 500 INTERNAL: out of memory", true},
		{"an error with a detail", fakeopenai.Reply{Status: 404, Raw: `{"detail": "no such model"}`}, false, "model: 404 NOT_FOUND: no such model", false},
		{"a page", fakeopenai.Reply{Status: 502, Raw: "<html>Bad gateway</html>"}, false, "model: 502: gpt-x answered with HTML", true},
		{"a page of another server", fakeopenai.Reply{Status: 404, Raw: "<!doctype html>\n"}, false, "model: 404 NOT_FOUND: gpt-x answered with HTML: is base_url right?", false},
		{"a page with a good status", fakeopenai.Reply{Raw: "<html>Welcome</html>"}, false, "model: gpt-x answered with HTML: is base_url right?", true},
		{"a page instead of a stream", fakeopenai.Reply{Raw: "<html>\n<body>"}, true, "model: gpt-x answered with HTML: is base_url right?", true},
		{"a redirect", fakeopenai.Reply{Status: 302}, false, `model: 302: {"error":{"code":null,"message":"","param":null,"type":"error"}}`, false},
		{"an error with a good status", fakeopenai.Reply{Raw: `{"error": {"message": "no credits", "code": 402}}`}, false, "model: 402: no credits", false},
		{"no JSON", fakeopenai.Reply{Raw: "hello"}, false, `model: malformed response from gpt-x: invalid character 'h' looking for beginning of value in "hello"`, true},
		{"no message", fakeopenai.Reply{Raw: `{"choices": []}`}, false, `model: malformed response from gpt-x: no message in "{\"choices\": []}"`, true},
		{"an error in a stream", fakeopenai.Reply{Chunks: []string{"a"}, Raw: "data: {\"error\": {\"message\": \"gone\", \"code\": 503}}\n\n"}, true, "model: 503 UNAVAILABLE: gone", true},
		{"no JSON in a stream", fakeopenai.Reply{Raw: "data: {\n\n"}, true, `model: malformed response from gpt-x: unexpected end of JSON input in "{"`, true},
		{"a stream that is cut", fakeopenai.Reply{Chunks: []string{"a"}, Raw: ": bye\n\n"}, true, "model: no response from gpt-x: stream ended before the response was complete", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, _ := modeltest.FakeOpenAI(t, tt.reply)
			_, err := modeltest.Ask(t, llm, tt.stream)
			failed, ok := errors.AsType[*model.Error](err)
			if !ok || failed.Error() != tt.want || failed.Retryable() != tt.again {
				t.Errorf("Generate() = %v, want %s, retryable %v", err, tt.want, tt.again)
			}
		})
	}
}

// Unsupported requests are rejected without a call.
func TestOpenAIRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		with func(req *model.Request)
		want string
	}{
		{
			"a tool of Gemini's",
			func(req *model.Request) {
				req.Config.Tools = []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}, CodeExecution: &genai.ToolCodeExecution{}}}
			},
			"model: 400 INVALID_ARGUMENT: gpt-x has no codeExecution and googleSearch: that is a Gemini tool",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, fake := modeltest.FakeOpenAI(t)
			req := modeltest.ScriptInput("hi", false)
			tt.with(req)
			_, err := modeltest.Collect(llm.Generate(t.Context(), req))
			if err == nil || err.Error() != tt.want || len(fake.Requests()) > 0 {
				t.Errorf("Generate() = %v after %d calls, want %s", err, len(fake.Requests()), tt.want)
			}
		})
	}
}

// The environment's key is sent only to the server that the environment sets, or to
// OpenAI.
func TestOpenAIKey(t *testing.T) {
	fake := fakeopenai.New()
	defer fake.Close()
	env := map[string]string{"OPENAI_API_KEY": "of-the-environment", "OPENAI_BASE_URL": fake.URL()}
	for _, tt := range []struct {
		name string
		opts openai.Options
		want string
	}{
		{"the environment's server", openai.Options{}, "of-the-environment"},
		{"a server of the document", openai.Options{BaseURL: fake.URL() + "/"}, ""},
		{"a key of the document", openai.Options{BaseURL: fake.URL(), APIKey: "own"}, "own"},
	} {
		tt.opts.Lookup, tt.opts.HTTP = modeltest.Lookup(env), fake.Client()
		if _, err := modeltest.Ask(t, openai.New("m", &tt.opts), false); err != nil {
			t.Fatal(err)
		}
		all := fake.Requests()
		if got := all[len(all)-1].Key; got != tt.want {
			t.Errorf("%s: key %q, want %q", tt.name, got, tt.want)
		}
	}
	_, err := modeltest.Ask(t, openai.New("m", &openai.Options{Lookup: modeltest.Lookup(nil)}), false)
	want := "model: 401 UNAUTHENTICATED: no key for OpenAI: set OPENAI_API_KEY in the environment or in the app's .env, " +
		"or give the model an api_key or a base_url under models: in app.yaml"
	if err == nil || err.Error() != want {
		t.Errorf("without a key: %v, want %s", err, want)
	}
}

// Settings that only Gemini has are logged.
func TestOpenAIUnsupportedSettings(t *testing.T) {
	fake := fakeopenai.New()
	defer fake.Close()
	var log bytes.Buffer
	llm := openai.New("m", &openai.Options{BaseURL: fake.URL(), HTTP: fake.Client(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	req := modeltest.ScriptInput("hi", false)
	req.Config = &genai.GenerateContentConfig{
		TopK: genai.Ptr(float32(3)), SafetySettings: []*genai.SafetySetting{{}}, ThinkingConfig: &genai.ThinkingConfig{ThinkingLevel: genai.ThinkingLevelLow},
		ResponseModalities: []string{"TEXT"}, Temperature: genai.Ptr(float32(1)),
	}
	if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "settings=[safetySettings]") {
		t.Errorf("the log is %s", &log)
	}
	if got := fake.Requests()[0].Body; got["reasoning_effort"] != "low" || got["top_k"] != 3.0 {
		t.Errorf("reasoning_effort is %v, top_k %v, want low and 3", got["reasoning_effort"], got["top_k"])
	}
}

// A retry waits for the delay that the service requests.
func TestOpenAIRetry(t *testing.T) {
	fake := fakeopenai.New()
	defer fake.Close()
	fake.Enqueue(fakeopenai.Reply{Status: 429, RetryAfter: "7"}, fakeopenai.Reply{Status: 503})
	var w modeltest.Waits
	llm := openai.New("m", &openai.Options{BaseURL: fake.URL(), HTTP: fake.Client(), Retry: provider.RetryOptions{Wait: w.Wait}})
	got, err := modeltest.Ask(t, llm, true)
	if err != nil || modeltest.Outline(got)[len(got)-1] != "ok" {
		t.Fatalf("Generate() = %q, %v", modeltest.Outline(got), err)
	}
	if diff := cmp.Diff(modeltest.Waits{7 * time.Second, 2 * time.Second}, w); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// Stream variants are supported: calls without an index or with the same one, other names for
// thoughts, no [DONE].
func TestOpenAIOtherStreams(t *testing.T) {
	for _, tt := range []struct{ name, raw, want string }{
		{
			"calls of one index",
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\n",
			"f()g()",
		},
		{
			"calls without an index",
			`data: {"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}]}}]}` + "\n\n" +
				`data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"1}"}}]}}]}` + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n",
			"f()",
		},
		{"another name of thoughts", `data: {"choices":[{"delta":{"reasoning":"Hm.","content":"Yes"},"finish_reason":"stop"}]}` + "\n\n", "Yes"},
		{"CRLF and comments", ": hi\r\n\r\ndata:{\"choices\":[{\"delta\":{\"content\":\"Yes\"}}]}\r\n\r\ndata:[DONE]\r\n\r\n", "Yes"},
		{"another choice", `data: {"choices":[{"index":1,"delta":{"content":"No"}},{"index":0,"delta":{"content":"Yes"},"finish_reason":"stop"}]}` + "\n\n", "Yes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, _ := modeltest.FakeOpenAI(t, fakeopenai.Reply{Raw: tt.raw})
			got, err := modeltest.Ask(t, llm, true)
			if err != nil || modeltest.Outline(got)[len(got)-1] != tt.want {
				t.Errorf("Generate() = %q, %v, want %s", modeltest.Outline(got), err, tt.want)
			}
		})
	}
}

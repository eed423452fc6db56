package modeltest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/anthropic"
	"agenthost/wing/gemini"
	"agenthost/wing/ollama"
	"agenthost/wing/openai"
)

// FuzzStream sends arbitrary bytes as a streamed response: the result is an error, or
// partial responses and a complete one, but never a panic.
func FuzzStream(f *testing.F) {
	for _, seed := range []string{
		"", "\n", ": x\n\n", "data: {}\n\n", "data: null\n\n", "data: []\n\n", "data: 7", "data: {\"error\":{\"code\":503}}\n\n", "{\"error\":7}\n",
		"data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\r\n\r\n",
		"data: {\"candidates\":[{\"content\":{\"parts\":[null,{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":1}}}]}}]}\n\ndata: {\"usageMetadata\":{}}\n\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", "data: {\"choices\":[null]}\n\n",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"stop\"}]}\n\n",
		"{\"message\":{\"thinking\":\"t\"}}\n{\"message\":{\"content\":\"a\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{}}}]},\"done\":true}\n",
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\"reasoning\",\"encrypted_content\":\"e\"},{\"type\":\"function_call\",\"call_id\":\"c\",\"arguments\":\"{}\"}]}}\n\n",
		"data: {\"candidates\":[null]}\n\n", "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"}}\n\n",
	} {
		f.Add([]byte(seed))
	}
	for _, seed := range anthropicStreams() {
		f.Add([]byte(seed))
	}
	var body []byte
	client := &http.Client{Transport: answering(func() []byte { return body })}
	vertex := &gemini.Options{
		Lookup: modeltest.Lookup(map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p"}), HTTP: client,
		Token: func(context.Context) (string, error) { return "t", nil }, Retry: provider.RetryOptions{Attempts: 1},
	}
	models := []model.LLM{
		gemini.New("m", vertex),
		gemini.New("m", &gemini.Options{APIKey: "k", Lookup: modeltest.Lookup(nil), HTTP: client, Retry: vertex.Retry}),
		ollama.New("m", &ollama.Options{BaseURL: "http://fake", Lookup: modeltest.Lookup(nil), HTTP: client, Retry: vertex.Retry}),
		openai.New("gpt-5", &openai.Options{API: "responses", BaseURL: "http://fake/v1", Lookup: modeltest.Lookup(nil), HTTP: client, Retry: vertex.Retry}),
		openai.New("m", &openai.Options{BaseURL: "http://fake/v1", Lookup: modeltest.Lookup(nil), HTTP: client, Retry: vertex.Retry}),
		anthropic.New("m", &anthropic.Options{BaseURL: "http://fake", Lookup: modeltest.Lookup(nil), HTTP: client, Retry: vertex.Retry}),
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		body = b
		for _, llm := range models {
			got, err := modeltest.Ask(t, llm, true)
			for i, r := range got {
				if last := i == len(got)-1 && err == nil; r.Partial == last {
					t.Errorf("response %d of %d: partial = %v", i, len(got), r.Partial)
				}
			}
			if err == nil && len(got) == 0 {
				t.Error("neither a response nor an error")
			}
		}
	})
}

// answering is a transport whose responses have status 200.
type answering func() []byte

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a()))}, nil
}

// anthropicStreams are Anthropic streams, whole and broken.
func anthropicStreams() []string {
	const (
		start = "data: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":1}}}\n\n"
		end   = "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":1}}\n\ndata: {\"type\":\"message_stop\"}\n\n"
		text  = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
		call = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n" +
			"data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\ndata: {\"type\":\"content_block_stop\"}\n\n"
	)
	return []string{
		start + text + end, start + call + end, start + end, start + text, end, text + text + end,
		strings.ReplaceAll(start+text+end, "end_turn", "pause_turn"),
		"data: {\"type\":\"content_block_start\",\"index\":-1}\n\n", "data: {\"type\":\"content_block_start\",\"content_block\":null}\n\n" + end,
		"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n",
	}
}

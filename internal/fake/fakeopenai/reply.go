package fakeopenai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"agenthost/internal/fake"
	"agenthost/internal/fake/fakeodd"
)

// A Reply is one response from the server.
type Reply struct {
	// Chunks are the text. In a stream each is a separate chunk.
	Chunks []string
	// Thought is sent before the text, as reasoning_content or as a summary.
	Thought string
	// Reasoning sends a reasoning item, without a summary if there is no thought. Only Responses
	// have it.
	Reasoning bool
	Refusal   string
	Calls     []Call
	// Finish is the finish reason; empty means stop, or tool_calls if there are calls.
	Finish string
	// Usage is the usage object.
	Usage map[string]any

	// Status, if set, makes this a failure with OpenAI's error JSON.
	Status     int
	Message    string
	Code       string
	RetryAfter string
	// Raw, if set, is sent as the body. In a stream it follows the text chunks and ends the stream.
	Raw string
	// Odd is how the answer differs from the API; see [fakeodd.Kind].
	Odd fakeodd.Kind
	// Hold, if set, delays the answer until the channel is closed or the caller
	// disconnects. A stream sends its first chunk before.
	Hold <-chan struct{}
	// Started, if set, is called when the request arrives.
	Started func()
}

// A Call is a tool call in a reply.
type Call struct{ ID, Name, Arguments string }

func (r Reply) finishReason() string {
	switch {
	case r.Finish != "":
		return r.Finish
	case len(r.Calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

// startReply writes a failure. It returns false if there is one.
func (r Reply) startReply(w http.ResponseWriter) bool {
	fake.SignalStart(r.Started)
	if r.Status != 0 {
		writeFailure(w, r)
	}
	return r.Status == 0
}

func (r Reply) writeReply(w http.ResponseWriter, req *http.Request) {
	if !r.startReply(w) || !fake.WaitForHold(req, r.Hold) {
		return
	}
	if r.Raw != "" {
		fmt.Fprint(w, r.Raw)
		return
	}
	message := map[string]any{"role": "assistant", "content": nil, "refusal": nil}
	if text := strings.Join(r.Chunks, ""); text != "" {
		message["content"] = text
	}
	if r.Thought != "" {
		message["reasoning_content"] = r.Thought
	}
	if r.Refusal != "" {
		message["refusal"] = r.Refusal
	}
	if len(r.Calls) > 0 {
		message["tool_calls"] = r.encodeCalls()
	}
	answer := newChunk(map[string]any{"index": 0, "message": message, "finish_reason": r.finishReason()})
	answer["object"] = "chat.completion"
	if r.Usage != nil {
		answer["usage"] = r.Usage
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// encodeCalls returns the whole calls.
func (r Reply) encodeCalls() []any {
	var calls []any
	for i, c := range r.Calls {
		call := encodeCall(i, c, c.Name, c.Arguments)
		if r.Odd != fakeodd.Summary {
			delete(call, "index")
		}
		calls = append(calls, call)
	}
	return calls
}

func encodeCall(i int, c Call, name, arguments string) map[string]any {
	return map[string]any{"index": i, "id": c.ID, "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}
}

// splitCall returns a call's chunks: its name, and its arguments in two chunks.
func (r Reply) splitCall(i int, c Call) []map[string]any {
	half, middle := len(c.Arguments)/2, len(c.Name)/2
	names, arguments := []string{c.Name, "", ""}, []string{"", c.Arguments[:half], c.Arguments[half:]}
	switch r.Odd {
	case fakeodd.Arguments:
		names, arguments = []string{c.Name}, []string{c.Arguments}
	case fakeodd.Names:
		names = []string{c.Name, c.Name, c.Name}
	case fakeodd.SplitNames:
		names = []string{c.Name[:middle], c.Name[middle:], ""}
	case fakeodd.Growing:
		names, arguments = []string{c.Name[:middle], c.Name, c.Name}, []string{"", c.Arguments[:half], c.Arguments}
	}
	chunks := []map[string]any{encodeCall(i, c, names[0], arguments[0])}
	for j, chunk := range arguments[1:] {
		function := map[string]any{"arguments": chunk}
		if names[j+1] != "" {
			function["name"] = names[j+1]
		}
		chunks = append(chunks, map[string]any{"index": i, "function": function})
	}
	return chunks
}

func newChunk(choices ...any) map[string]any {
	return map[string]any{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "fake-openai", "choices": append([]any{}, choices...)}
}

func (r Reply) streamReply(w http.ResponseWriter, req *http.Request, usage bool) {
	if !r.startReply(w) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	delta := func(d map[string]any) {
		fake.WriteEvent(w, newChunk(map[string]any{"index": 0, "delta": d, "finish_reason": nil}))
	}
	delta(map[string]any{"role": "assistant", "content": ""})
	if r.Thought != "" {
		delta(map[string]any{"reasoning_content": r.Thought})
	}
	for i, chunk := range r.Chunks {
		delta(map[string]any{"content": chunk})
		if i == 0 && !fake.WaitForHold(req, r.Hold) {
			return
		}
	}
	if r.Refusal != "" {
		delta(map[string]any{"refusal": r.Refusal})
	}
	for i, c := range r.Calls {
		for _, chunk := range r.splitCall(i, c) {
			delta(map[string]any{"tool_calls": []any{chunk}})
		}
	}
	if r.Odd == fakeodd.Summary {
		delta(map[string]any{"tool_calls": r.encodeCalls()})
	}
	if r.Raw != "" {
		fmt.Fprint(w, r.Raw)
		return
	}
	fake.WriteEvent(w, newChunk(map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": r.finishReason()}))
	if usage {
		last := newChunk()
		last["usage"] = r.Usage
		fake.WriteEvent(w, last)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func writeFailure(w http.ResponseWriter, r Reply) {
	failure := map[string]any{"message": r.Message, "type": "error", "param": nil, "code": nil}
	if r.Status == http.StatusBadRequest {
		failure["type"] = "invalid_request_error"
	}
	if r.Code != "" {
		failure["code"] = r.Code
	}
	w.Header().Set("Content-Type", "application/json")
	fake.WriteFailure(w, fake.Failure{Status: r.Status, RetryAfter: r.RetryAfter, Raw: r.Raw, Body: map[string]any{"error": failure}})
}

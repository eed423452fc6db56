package fakeollama

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
	// Thought is sent before the text.
	Thought string
	Calls   []Call
	// Done is the done_reason; empty means stop.
	Done string
	// Prompt and Output are token counts.
	Prompt, Output int

	// Status, if set, makes this a failure.
	Status     int
	Message    string
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
type Call struct {
	ID, Name string
	Args     map[string]any
}

func (r Reply) startReply(w http.ResponseWriter) bool {
	fake.SignalStart(r.Started)
	if r.Status != 0 {
		writeFailure(w, r)
	}
	return r.Status == 0
}

func newChunk(name any, message map[string]any) map[string]any {
	message["role"] = "assistant"
	if message["content"] == nil {
		message["content"] = ""
	}
	return map[string]any{"model": name, "created_at": "2026-11-22T00:00:00Z", "message": message, "done": false}
}

func (r Reply) toolCalls() []any {
	var calls []any
	for i, c := range r.Calls {
		args := c.Args
		if args == nil {
			args = map[string]any{}
		}
		call := map[string]any{"function": map[string]any{"index": i, "name": c.Name, "arguments": args}}
		if c.ID != "" {
			call["id"] = c.ID
		}
		calls = append(calls, call)
	}
	return calls
}

// finishChunk marks a chunk as the last one, with its counts.
func (r Reply) finishChunk(chunk map[string]any) map[string]any {
	chunk["done"], chunk["done_reason"] = true, "stop"
	if r.Done != "" {
		chunk["done_reason"] = r.Done
	}
	chunk["total_duration"], chunk["load_duration"] = 5191566416, 2154458
	if r.Prompt > 0 {
		chunk["prompt_eval_count"] = r.Prompt
	}
	if r.Output > 0 {
		chunk["eval_count"] = r.Output
	}
	return chunk
}

func (r Reply) writeReply(w http.ResponseWriter, req *http.Request, name any) {
	if !r.startReply(w) || !fake.WaitForHold(req, r.Hold) {
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if r.Raw != "" {
		fmt.Fprint(w, r.Raw)
		return
	}
	message := map[string]any{"content": strings.Join(r.Chunks, "")}
	if r.Thought != "" {
		message["thinking"] = r.Thought
	}
	if len(r.Calls) > 0 {
		message["tool_calls"] = r.toolCalls()
	}
	_ = json.NewEncoder(w).Encode(r.finishChunk(newChunk(name, message)))
}

func (r Reply) streamReply(w http.ResponseWriter, req *http.Request, name any) {
	if !r.startReply(w) {
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Thought != "" {
		writeLine(w, newChunk(name, map[string]any{"thinking": r.Thought}))
	}
	for i, chunk := range r.Chunks {
		writeLine(w, newChunk(name, map[string]any{"content": chunk}))
		if i == 0 && !fake.WaitForHold(req, r.Hold) {
			return
		}
	}
	for _, call := range r.toolCalls() {
		writeLine(w, newChunk(name, map[string]any{"tool_calls": []any{call}}))
	}
	if r.Raw != "" {
		fmt.Fprint(w, r.Raw)
		return
	}
	writeLine(w, r.finishChunk(newChunk(name, map[string]any{})))
}

func writeLine(w http.ResponseWriter, v any) {
	_ = json.NewEncoder(w).Encode(v)
	_ = http.NewResponseController(w).Flush()
}

func writeFailure(w http.ResponseWriter, r Reply) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	fake.WriteFailure(w, fake.Failure{Status: r.Status, RetryAfter: r.RetryAfter, Raw: r.Raw, Body: map[string]any{"error": r.Message}})
}

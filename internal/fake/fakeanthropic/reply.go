package fakeanthropic

import (
	"fmt"
	"net/http"
	"strings"

	"agenthost/internal/fake"
	"agenthost/internal/fake/fakeodd"
)

// A Reply is one response from the server.
type Reply struct {
	Blocks []Block
	// Stop is the stop reason; empty means end_turn, or tool_use if there are calls.
	Stop string
	// Usage is added to the usage object, which has 10 input and 5 output tokens.
	Usage map[string]any

	// Status, if set, makes this a failure with the service's error JSON.
	Status     int
	Type       string // the error's; empty is the status's
	Message    string
	RetryAfter string
	// Raw, if set, is sent as the body. In a stream it follows the blocks and ends the
	// stream.
	Raw         string
	ContentType string // Raw's
	// Odd is how the answer differs from the API; see [fakeodd.Kind].
	Odd fakeodd.Kind
	// Hold, if set, delays the answer until the channel is closed or the caller
	// disconnects. A stream sends its first delta before.
	Hold <-chan struct{}
	// Started, if set, is called when the request arrives.
	Started func()
}

// A Block is a content block in a reply.
type Block struct {
	Type string
	// Chunks are the text in text and thinking blocks, or the JSON of a call's input. In a stream
	// each is a delta.
	Chunks []string
	// ID and Name are a call's. An empty ID becomes toolu_N.
	ID, Name string
}

// Text returns a text block with chunks.
func Text(chunks ...string) Block { return Block{Type: "text", Chunks: chunks} }

// Thinking returns a thinking block with chunks. The server signs it.
func Thinking(chunks ...string) Block { return Block{Type: "thinking", Chunks: chunks} }

// Redacted returns a redacted thinking block.
func Redacted() Block { return Block{Type: "redacted_thinking"} }

// Call returns a call with its input's chunks as JSON.
func Call(name string, input ...string) Block {
	return Block{Type: "tool_use", Name: name, Chunks: input}
}

func (r Reply) stopReason() string {
	if r.Stop != "" {
		return r.Stop
	}
	for _, b := range r.Blocks {
		if b.Type == "tool_use" {
			return "tool_use"
		}
	}
	return "end_turn"
}

func (r Reply) encodeUsage(output int) object {
	usage := object{"input_tokens": 10, "output_tokens": output}
	for name, n := range r.Usage {
		usage[name] = n
	}
	return usage
}

// startReply writes a failure. It returns false if there is one.
func (s *Server) startReply(w http.ResponseWriter, r Reply) bool {
	fake.SignalStart(r.Started)
	if r.Status != 0 {
		s.writeFailure(w, r)
	}
	return r.Status == 0
}

func (s *Server) writeReply(w http.ResponseWriter, req *http.Request, r Reply, model string) {
	if !s.startReply(w, r) || !fake.WaitForHold(req, r.Hold) {
		return
	}
	if r.Raw != "" {
		w.Header().Set("Content-Type", r.ContentType)
		fmt.Fprint(w, r.Raw)
		return
	}
	content := []any{}
	for _, b := range r.Blocks {
		block, _ := s.encodeBlock(b)
		content = append(content, block)
	}
	message := s.newMessage(model)
	message["content"], message["stop_reason"], message["usage"] = content, r.stopReason(), r.encodeUsage(5)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", s.nextID("req_"))
	fmt.Fprintln(w, encodeJSON(message))
}

func (s *Server) newMessage(model string) object {
	return object{
		"id": s.nextID("msg_"), "type": "message", "role": "assistant", "model": model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil,
	}
}

// encodeBlock returns the whole block, and a stream's block and deltas.
func (s *Server) encodeBlock(b Block) (whole object, stream []object) {
	text := strings.Join(b.Chunks, "")
	delta := func(kind, field string) {
		for _, chunk := range b.Chunks {
			stream = append(stream, object{"type": kind, field: chunk})
		}
	}
	switch b.Type {
	case "thinking":
		signature := s.nextID("sig+/") + "=="
		s.issueBlock(text, signature)
		stream = []object{{"type": "thinking", "thinking": "", "signature": ""}}
		delta("thinking_delta", "thinking")
		half := len(signature) / 2
		stream = append(stream, object{"type": "signature_delta", "signature": signature[:half]}, object{"type": "signature_delta", "signature": signature[half:]})
		return object{"type": "thinking", "thinking": text, "signature": signature}, stream
	case "redacted_thinking":
		data := s.nextID("redacted+/") + "=="
		s.issueBlock("", data)
		whole = object{"type": "redacted_thinking", "data": data}
		return whole, []object{whole}
	case "tool_use", "server_tool_use":
		id := b.ID
		if id == "" {
			id = s.nextID("toolu_")
		}
		stream = []object{{"type": b.Type, "id": id, "name": b.Name, "input": object{}}}
		delta("input_json_delta", "partial_json")
		return object{"type": b.Type, "id": id, "name": b.Name, "input": decodeInput(text)}, stream
	default:
		stream = []object{{"type": "text", "text": ""}}
		delta("text_delta", "text")
		return object{"type": "text", "text": text}, stream
	}
}

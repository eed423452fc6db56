package fakeopenai

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"agenthost/internal/fake"
)

// issueOutput returns a reply's items and stores their IDs. Reasoning is encrypted if the request
// includes that.
func (s *Server) issueOutput(r Reply, body map[string]any) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	var output []map[string]any
	reasoning := ""
	issue := func(kind, prefix string, item map[string]any) {
		id := fmt.Sprintf("%s_%d", prefix, len(s.issued)+1)
		item["type"], item["id"] = kind, id
		encrypted, _ := item["encrypted_content"].(string)
		s.issued[id] = issuedItem{kind, encrypted, reasoning}
		output = append(output, item)
		if kind == "reasoning" {
			reasoning = id
		}
	}
	if r.Reasoning || r.Thought != "" {
		item := map[string]any{"summary": []any{}}
		if r.Thought != "" {
			item["summary"] = []any{map[string]any{"type": "summary_text", "text": r.Thought}}
		}
		include, _ := body["include"].([]any)
		if slices.Contains(include, any("reasoning.encrypted_content")) {
			item["encrypted_content"] = fmt.Sprintf("gAAAA-%d", len(s.issued)+1)
		}
		issue("reasoning", "rs", item)
	}
	switch text := strings.Join(r.Chunks, ""); {
	case r.Refusal != "":
		issue("message", "msg", map[string]any{"role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "refusal", "refusal": r.Refusal}}})
	case text != "":
		issue("message", "msg", map[string]any{"role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": text, "annotations": []any{}}}})
	}
	for i, c := range r.Calls {
		status := "completed"
		if r.Finish == "max_output_tokens" && i == len(r.Calls)-1 {
			status = "incomplete"
		}
		issue("function_call", "fc", map[string]any{"status": status, "call_id": c.ID, "name": c.Name, "arguments": c.Arguments})
	}
	return output
}

// responseObject returns the response. Finish is the reason if it is incomplete.
func (r Reply) responseObject(output []map[string]any) map[string]any {
	object := map[string]any{
		"id": "resp_1", "object": "response", "created_at": 1, "model": "fake-openai", "status": "completed",
		"error": nil, "incomplete_details": nil, "output": append([]map[string]any{}, output...), "usage": r.Usage,
	}
	if r.Finish != "" {
		object["status"], object["incomplete_details"] = "incomplete", map[string]any{"reason": r.Finish}
	}
	return object
}

// streamResponse writes a response's events.
func (r Reply) streamResponse(w http.ResponseWriter, req *http.Request, output []map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	n := 0
	send := func(kind string, fields map[string]any) {
		fields["type"], fields["sequence_number"] = kind, n
		n++
		fmt.Fprintf(w, "event: %s\n", kind)
		fake.WriteEvent(w, fields)
	}
	started := r.responseObject(nil)
	started["status"], started["usage"] = "in_progress", nil
	send("response.created", map[string]any{"response": started})
	for i, item := range output {
		delta := func(kind, text string) {
			send("response."+kind+".delta", map[string]any{"item_id": item["id"], "output_index": i, "delta": text})
		}
		send("response.output_item.added", map[string]any{"output_index": i, "item": map[string]any{"type": item["type"], "id": item["id"], "name": item["name"], "status": "in_progress"}})
		switch item["type"] {
		case "reasoning":
			if r.Thought != "" {
				delta("reasoning_summary_text", r.Thought)
			}
		case "message":
			if r.Refusal != "" {
				delta("refusal", r.Refusal)
				break
			}
			for j, chunk := range r.Chunks {
				delta("output_text", chunk)
				if j == 0 && !fake.WaitForHold(req, r.Hold) {
					return
				}
			}
		case "function_call":
			arguments, _ := item["arguments"].(string)
			delta("function_call_arguments", arguments[:len(arguments)/2])
			if r.Raw != "" {
				break
			}
			delta("function_call_arguments", arguments[len(arguments)/2:])
		}
		if r.Raw == "" {
			send("response.output_item.done", map[string]any{"output_index": i, "item": item})
		}
	}
	if r.Raw != "" {
		fmt.Fprint(w, r.Raw)
		return
	}
	kind := "response.completed"
	if r.Finish != "" {
		kind = "response.incomplete"
	}
	send(kind, map[string]any{"response": r.responseObject(output)})
}

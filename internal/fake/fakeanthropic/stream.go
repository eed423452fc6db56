package fakeanthropic

import (
	"fmt"
	"net/http"

	"agenthost/internal/fake"
	"agenthost/internal/number"
)

func decodeInput(text string) any {
	if text == "" {
		return object{}
	}
	input, err := number.DecodeObject([]byte(text))
	if err != nil {
		return text
	}
	return input
}

func (s *Server) streamReply(w http.ResponseWriter, req *http.Request, r Reply, model string) {
	if !s.startReply(w, r) {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Request-Id", s.nextID("req_"))
	message := s.newMessage(model)
	message["usage"] = r.encodeUsage(1)
	writeEvent(w, "message_start", object{"message": message})
	writeEvent(w, "ping", object{})
	for i, b := range r.Blocks {
		_, stream := s.encodeBlock(b)
		writeEvent(w, "content_block_start", object{"index": i, "content_block": stream[0]})
		for j, delta := range stream[1:] {
			writeEvent(w, "content_block_delta", object{"index": i, "delta": delta})
			if i == 0 && j == 0 && !fake.WaitForHold(req, r.Hold) {
				return
			}
		}
		writeEvent(w, "content_block_stop", object{"index": i})
	}
	if r.Raw != "" {
		fmt.Fprint(w, r.Raw)
		return
	}
	usage := object{"output_tokens": 5}
	if n, ok := r.Usage["output_tokens"]; ok {
		usage["output_tokens"] = n
	}
	if details, ok := r.Usage["output_tokens_details"]; ok {
		usage["output_tokens_details"] = details
	}
	writeEvent(w, "message_delta", object{"delta": object{"stop_reason": r.stopReason(), "stop_sequence": nil}, "usage": usage})
	writeEvent(w, "message_stop", object{})
}

func writeEvent(w http.ResponseWriter, name string, event object) {
	event["type"] = name
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, encodeJSON(event))
	_ = http.NewResponseController(w).Flush()
}

// errorTypes are the error types by status.
var errorTypes = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error",
}

func (s *Server) writeFailure(w http.ResponseWriter, r Reply) {
	id := s.nextID("req_")
	kind := r.Type
	if kind == "" {
		kind = errorTypes[r.Status]
	}
	if kind == "" {
		kind = "api_error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Request-Id", id)
	if r.Raw != "" {
		w.Header().Set("Content-Type", r.ContentType)
	}
	body := object{"type": "error", "error": object{"type": kind, "message": r.Message}, "request_id": id}
	fake.WriteFailure(w, fake.Failure{Status: r.Status, RetryAfter: r.RetryAfter, Raw: r.Raw, Body: body})
}

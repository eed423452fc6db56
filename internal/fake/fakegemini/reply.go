package fakegemini

import (
	"encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/genai"

	"agenthost/internal/fake"
	"agenthost/internal/fake/fakeodd"
)

// A Reply is one response from the server. The zero value is an empty answer with finish reason
// STOP.
type Reply struct {
	// Parts is the answer. In a stream each part is a chunk; otherwise adjacent texts
	// of the same kind are joined.
	Parts []*genai.Part
	// Finish is the last chunk's finish reason; empty means STOP.
	Finish        genai.FinishReason
	FinishMessage string
	// Block, if set, is the reason why the prompt was blocked. There is no answer then.
	Block genai.BlockedReason
	// Usage is sent with the last chunk.
	Usage *genai.GenerateContentResponseUsageMetadata

	// Status, if set, makes this a failure with Google's error JSON.
	Status  int
	Message string
	// RetryAfter is the Retry-After header.
	RetryAfter string
	// RetryDelay is the google.rpc.RetryInfo detail, such as "3s".
	RetryDelay string
	// Reason is the google.rpc.ErrorInfo detail, such as API_KEY_INVALID.
	Reason string

	// Raw, if set, is sent as the body, for malformed responses and failures without Google's JSON.
	// In a stream it follows the parts' chunks.
	Raw string
	// Cut closes the connection early: in a stream after the parts' chunks, otherwise inside the
	// body.
	Cut bool

	// Odd is how the answer differs from the API; see [fakeodd.Kind].
	Odd fakeodd.Kind
	// Hold, if set, delays the answer until the channel is closed or the caller
	// disconnects. A stream sends its first chunk before.
	Hold <-chan struct{}
	// Started, if set, is called when the request arrives.
	Started func()
}

// Text answers with text. In a stream each string is a chunk.
func Text(chunks ...string) Reply {
	var r Reply
	for _, s := range chunks {
		r.Parts = append(r.Parts, &genai.Part{Text: s})
	}
	return r
}

// Parts answers with parts.
func Parts(parts ...*genai.Part) Reply { return Reply{Parts: parts} }

// Failure answers with an HTTP status and Google's error JSON.
func Failure(status int, message string) Reply { return Reply{Status: status, Message: message} }

// Blocked answers that the prompt was blocked.
func Blocked(reason genai.BlockedReason) Reply { return Reply{Block: reason} }

func (r Reply) writeFailure(w http.ResponseWriter) {
	failure := map[string]any{"code": r.Status, "message": r.Message, "status": statusName(r.Status)}
	var details []any
	if r.Reason != "" {
		details = append(details, map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": r.Reason, "domain": "googleapis.com"})
	}
	if r.RetryDelay != "" {
		details = append(details, map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": r.RetryDelay})
	}
	if details != nil {
		failure["details"] = details
	}
	if r.Raw == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	fake.WriteFailure(w, fake.Failure{Status: r.Status, RetryAfter: r.RetryAfter, Raw: r.Raw, Body: map[string]any{"error": failure}})
}

func (r Reply) writeUnary(w http.ResponseWriter, req *http.Request) {
	w = r.Odd.WrapWriter(w)
	fake.SignalStart(r.Started)
	if !fake.WaitForHold(req, r.Hold) {
		return
	}
	switch {
	case r.Status != 0:
		r.writeFailure(w)
	case r.Raw != "":
		fmt.Fprint(w, r.Raw)
	case r.Cut:
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"candidates":[`)
		closeMidway(w)
	default:
		writeJSON(w, http.StatusOK, r.buildChunk(r.joinTexts(), true))
	}
}

func (r Reply) writeStream(w http.ResponseWriter, req *http.Request) {
	w = r.Odd.WrapWriter(w)
	fake.SignalStart(r.Started)
	if r.Status != 0 {
		if fake.WaitForHold(req, r.Hold) {
			r.writeFailure(w)
		}
		return
	}
	if r.Odd == fakeodd.OtherMode {
		r.writeList(w)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	broken := r.Cut || r.Raw != ""
	for i, p := range r.Parts {
		last := i == len(r.Parts)-1 && !broken
		fake.WriteEvent(w, r.buildChunk([]*genai.Part{p}, last))
		if i == 0 && !fake.WaitForHold(req, r.Hold) {
			return
		}
	}
	if len(r.Parts) == 0 && !broken {
		fake.WriteEvent(w, r.buildChunk(nil, true))
	}
	fmt.Fprint(w, r.Raw)
	if r.Cut {
		closeMidway(w)
	}
}

// writeList writes the chunks as a JSON list, the service's form for a stream without alt=sse.
func (r Reply) writeList(w http.ResponseWriter) {
	chunks := []any{}
	for i, p := range r.Parts {
		chunks = append(chunks, r.buildChunk([]*genai.Part{p}, i == len(r.Parts)-1))
	}
	writeJSON(w, http.StatusOK, chunks)
}

// joinTexts joins adjacent texts, as the service does in unary responses.
func (r Reply) joinTexts() []*genai.Part {
	var parts []*genai.Part
	for _, p := range r.Parts {
		if n := len(parts); n > 0 && p.Text != "" && parts[n-1].Text != "" && p.Thought == parts[n-1].Thought {
			joined := *parts[n-1]
			joined.Text += p.Text
			parts[n-1] = &joined
			continue
		}
		parts = append(parts, p)
	}
	return parts
}

func (r Reply) buildChunk(parts []*genai.Part, last bool) *genai.GenerateContentResponse {
	chunk := &genai.GenerateContentResponse{ModelVersion: "fake-gemini"}
	if r.Block != "" {
		chunk.PromptFeedback = &genai.GenerateContentResponsePromptFeedback{BlockReason: r.Block}
		return chunk
	}
	candidate := &genai.Candidate{}
	if len(parts) > 0 {
		candidate.Content = &genai.Content{Role: genai.RoleModel, Parts: parts}
	}
	if last {
		candidate.FinishReason, candidate.FinishMessage = genai.FinishReasonStop, r.FinishMessage
		if r.Finish != "" {
			candidate.FinishReason = r.Finish
		}
		chunk.UsageMetadata = r.Usage
	}
	chunk.Candidates = []*genai.Candidate{candidate}
	return chunk
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func closeMidway(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	_ = rc.Flush()
	if conn, _, err := rc.Hijack(); err == nil {
		_ = conn.Close()
	}
}

func statusName(code int) string {
	switch code {
	case http.StatusBadRequest:
		return "INVALID_ARGUMENT"
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	default:
		return "INTERNAL"
	}
}

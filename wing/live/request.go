// Package live holds live conversations, in which the client and the model send whenever they
// like (adk-python run_live). [Run] runs one: agent.go draws its goroutines, and loop.go has the
// loop that decides.
package live

import "google.golang.org/genai"

// A Request is what a client sends during a live run: ADK's LiveRequest. Its JSON form has keys in
// snake_case or camelCase. It has at most one of Blob, ActivityStart, ActivityEnd and
// AudioStreamEnd; a state delta comes first, content and a close follow.
type Request struct {
	// Content is text, or the answers to function calls. A partial content does not
	// complete the user's turn and is not stored.
	Content *genai.Content
	Partial bool
	// Blob is an audio chunk, or an image.
	Blob *genai.Blob
	// ActivityStart and ActivityEnd mark speech when its detection is disabled.
	ActivityStart, ActivityEnd bool
	// AudioStreamEnd reports that the microphone is off.
	AudioStreamEnd bool
	// StateDelta changes the session's state.
	StateDelta map[string]any
	// Close ends the run.
	Close bool
	// otherBytes is the JSON form's size without the blob's data.
	otherBytes int
}

// NewContentRequest returns the request for a content of about size bytes.
func NewContentRequest(content *genai.Content, size int) *Request {
	return &Request{Content: content, otherBytes: size}
}

// checkInputs rejects a request with several realtime inputs, which have no order.
func (r *Request) checkInputs() error {
	inputs := 0
	for _, has := range []bool{r.Blob != nil, r.ActivityStart, r.ActivityEnd, r.AudioStreamEnd} {
		if has {
			inputs++
		}
	}
	if inputs > 1 {
		return errManyInputs
	}
	return nil
}

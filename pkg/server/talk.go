package server

import (
	"context"
	"net/http"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// A Talk is a live conversation on a WebSocket whose frames have a door's own form, such as the chat
// page's. Binary frames from the client are audio, and its other text frames are live requests with
// audio and signals, without content, state and pictures. One goroutine calls ReadFrame, another one WriteEvent and ExplainEnd.
type Talk struct {
	// Key is the session. The door has authenticated the caller as its user.
	Key session.Key
	// Protocol names the door in outcomes.
	Protocol string
	// ReadFrame returns the content of a text frame, nil for a live request. It is answered by the
	// reply, if there is one, once the conversation has it; a frame with an error by ExplainFrame.
	ReadFrame func(ctx context.Context, text []byte) (content *genai.Content, reply []byte, err error)
	// WriteEvent returns the text frames for an event.
	WriteEvent func(ev *session.Event) [][]byte
	// ExplainFrame returns the text frame for a rejected one.
	ExplainFrame func(err error) []byte
	// ExplainEnd returns the close frame's reason, at most 123 bytes, for the error that ended the
	// talk, or that kept it from beginning.
	ExplainEnd func(err error) string
}

// RunTalk upgrades a request to a WebSocket, and holds a live conversation on it until either side
// ends it. Without an upgrade, the error has the status 426 if a WebSocket would be accepted. On a
// server without live conversations, it has the status 404.
func (s *Services) RunTalk(w http.ResponseWriter, r *http.Request, t *Talk) error {
	for _, x := range s.extensions {
		if x.RunTalk != nil {
			return x.RunTalk(w, r, t)
		}
	}
	return NewError(http.StatusNotFound, "Not Found")
}

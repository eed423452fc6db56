package server

import (
	"bytes"
	"encoding/json"
	"net/http"

	"agenthost/pkg/session"
)

type detailBody struct {
	Detail any `json:"detail"`
}

func encodeJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func writeJSON(w http.ResponseWriter, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	writeRawJSON(w, http.StatusOK, text)
	return nil
}

// writeRawJSON sends encoded JSON. It ignores write errors, because the client has
// disconnected.
func writeRawJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func writeDetail(w http.ResponseWriter, status int, detail any) {
	text, err := encodeJSON(detailBody{detail})
	if err != nil {
		text = []byte(`{"detail":"` + internalDetail + `"}`)
	}
	writeRawJSON(w, status, text)
}

// writeSession responds to a request that changed a session.
func (s *Server) writeSession(w http.ResponseWriter, r *http.Request, sess *session.Session, form session.Form) error {
	return s.responses.sendResponse(w, r, responseRequest{user: sess.User, exempt: true, encode: func() ([]byte, error) {
		return form.AppendSession(nil, sess)
	}})
}

package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"agenthost/internal/charset"
	"agenthost/internal/jsonbody"
	"agenthost/internal/limit"
	"agenthost/pkg/session"
)

// PathKey returns the session key in the path; missing parts are empty.
func PathKey(r *http.Request) session.Key {
	return session.Key{App: r.PathValue("app"), User: r.PathValue("user"), ID: r.PathValue("session")}
}

// ReadQueryFlag reads a boolean from the query; an absent one is false. The response to its error
// is 422.
func ReadQueryFlag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, jsonbody.NewError("bool_parsing", "Input should be true or false", "query", name)
	}
	return on, nil
}

// readEventForm returns the event form in the response: ADK's form, with each event's
// provenance if the request has ?provenance=true.
func readEventForm(r *http.Request) (session.Form, error) {
	provenance, err := ReadQueryFlag(r, "provenance")
	return session.Form{Provenance: provenance}, err
}

// ReadBody reads a request body. An empty body is an object without fields. The error
// is a *[http.MaxBytesError], a [*limit.Error], an *[jsonbody.InvalidError] or a
// *[bodyReadError].
func (s *Services) ReadBody(w http.ResponseWriter, r *http.Request) (*jsonbody.Body, error) {
	text, err := s.ReadText(w, r)
	if err != nil {
		return nil, err
	}
	b := jsonbody.Parse(text)
	return b, b.Err()
}

// ReadJSON reads a request body within the server's limits into v, as [json.Unmarshal]. An
// empty body leaves v as it is. The response to its error is 400, 408, 413 or 422.
func (s *Services) ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	text, err := s.ReadText(w, r)
	if err != nil {
		return err
	}
	return DecodeJSON(text, v)
}

// DecodeJSON is [json.Unmarshal] for a request body. An empty one leaves v as it is. The response to its
// error is 422.
func DecodeJSON(text []byte, v any) error {
	if len(text) == 0 {
		return nil
	}
	err := json.Unmarshal(text, v)
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return jsonbody.NewError("json_invalid", "JSON decode error: "+syntax.Error(), "body", syntax.Offset)
	case err != nil:
		return jsonbody.NewError("value_error", err.Error(), "body")
	}
	return nil
}

// ReadText reads a request body within the deadline set by ServeHTTP. JSON in UTF-16 or
// UTF-32, or with a byte order mark, becomes UTF-8: ADK reads them all. The text is within the server's
// limits, and the caller checks its syntax. The response to the error is 400, 408 or 413.
func (s *Services) ReadText(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	text, err := s.ReadBytes(w, r)
	if err != nil {
		return nil, err
	}
	text = charset.DecodeJSON("", text)
	return text, limit.RequestBody.CheckValues(text)
}

// ReadBytes reads a request body of another format within the deadline set by ServeHTTP, and the server's
// limit in bytes. The response to the error is 400, 408 or 413.
func (s *Services) ReadBytes(w http.ResponseWriter, r *http.Request) (text []byte, err error) {
	if n := r.ContentLength; 0 <= n && n <= min(maxPreallocated, s.opts.MaxBody) {
		text = make([]byte, n)
		_, err = io.ReadFull(r.Body, text)
	} else {
		text, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	}
	if err != nil {
		return nil, &bodyReadError{err}
	}
	return text, ignoreUnsupported(http.NewResponseController(w).SetReadDeadline(time.Time{}))
}

// maxPreallocated is the largest Content-Length for which the buffer is allocated in
// advance.
const maxPreallocated = 64 << 10

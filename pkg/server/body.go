package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A fault is one thing that is wrong with a request body, as adk-python lists
// it: its kind, the keys that lead to it, and a sentence.
type fault struct {
	Type string `json:"type"`
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
}

// invalidBody is the error of a body with faults.
type invalidBody struct{ faults []fault }

// Error names the first fault.
func (e *invalidBody) Error() string {
	return fmt.Sprintf("request body: %v: %s", e.faults[0].Loc, e.faults[0].Msg)
}

// unreadBody is the error of a body that did not come whole.
type unreadBody struct{ err error }

// Error is for the log.
func (e *unreadBody) Error() string { return "reading the request body: " + e.err.Error() }

// Unwrap returns the connection's error.
func (e *unreadBody) Unwrap() error { return e.err }

// failure blames the client: it was too slow, or gave up.
func (e *unreadBody) failure() failure {
	if errors.Is(e.err, os.ErrDeadlineExceeded) {
		return failure{http.StatusRequestTimeout, runtime.CodeInvalidRequest, "The request body came too slowly", 0}
	}
	return failure{http.StatusBadRequest, runtime.CodeInvalidRequest, "The request body did not come whole", 0}
}

// A body is a JSON object that a client sent. Its methods read one field each,
// by the camelCase name, and note what is wrong with it; err tells it all.
// Absent and null are the same.
type body struct {
	fields []field
	faults []fault
	// room is for the fields of most bodies.
	room [8]field
}

// readBody reads a request's body. An empty one is an object without fields.
// The error is a *[http.MaxBytesError], a [crowdedBody] or an *[invalidBody], or
// the connection's.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*body, error) {
	text, err := s.readText(w, r)
	if err != nil {
		return nil, err
	}
	b := &body{}
	if len(text) > 0 {
		b.open(text)
	}
	return b, b.err()
}

// readText reads a request's body, in the time that ServeHTTP sets.
func (s *Server) readText(w http.ResponseWriter, r *http.Request) (text []byte, err error) {
	if n := r.ContentLength; 0 <= n && n <= min(maxRoom, s.opts.MaxBody) {
		text = make([]byte, n)
		_, err = io.ReadFull(r.Body, text)
	} else {
		text, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	}
	if err != nil {
		return nil, &unreadBody{err}
	}
	if crowded(text) {
		return nil, crowdedBody{}
	}
	return text, possible(http.NewResponseController(w).SetReadDeadline(time.Time{}))
}

// maxRoom is how many bytes of a body there is room for before they come.
const maxRoom = 64 << 10

func (b *body) open(text []byte) {
	if json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, jsonSpace), []byte("{")) {
		b.fields = appendFields(b.room[:0], text)
		return
	}
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(text, &map[string]json.RawMessage{}); {
	case errors.As(err, &syntax):
		b.fault("json_invalid", "JSON decode error: "+syntax.Error(), syntax.Offset)
	case err != nil:
		b.fault("model_attributes_type", "Input should be a valid object")
	}
}

func (b *body) fault(kind, message string, keys ...any) {
	b.faults = append(b.faults, fault{kind, append([]any{"body"}, keys...), message})
}

// reject notes an error of pkg/session about the value under the keys.
func (b *body) reject(err error, keys ...any) {
	var fe *session.FieldError
	if !errors.As(err, &fe) {
		fe = &session.FieldError{Message: err.Error()}
	}
	b.fault("value_error", fe.Message, slices.Concat(keys, fe.Path)...)
}

func (b *body) err() error {
	if len(b.faults) == 0 {
		return nil
	}
	return &invalidBody{b.faults}
}

// find returns a field, or nil; camelCase wins.
func (b *body) find(name string) (found *field) {
	for i := range b.fields {
		switch f := &b.fields[i]; {
		case string(f.value) == "null":
		case string(f.key) == name:
			return f
		case isSnakeCase(f.key, name):
			found = f
		}
	}
	return found
}

// need notes that a field is missing.
func (b *body) need(name string) {
	if b.find(name) == nil {
		b.fault("missing", "Field required", name)
	}
}

func (b *body) text(name string) string {
	f := b.find(name)
	if f == nil {
		return ""
	}
	if text, ok := plain(f.value); ok {
		return string(text)
	}
	var text string
	if json.Unmarshal(f.value, &text) != nil {
		b.fault("string_type", "Input should be a valid string", string(f.key))
	}
	return text
}

func (b *body) flag(name string) *bool {
	f := b.find(name)
	if f == nil {
		return nil
	}
	switch string(f.value) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	b.fault("bool_type", "Input should be a valid boolean", string(f.key))
	return nil
}

// decode reads a field with a function of pkg/session; absent is the zero value.
func decode[T any](b *body, name string, read func(text []byte, keys ...any) (T, error)) (value T) {
	f := b.find(name)
	if f == nil {
		return value
	}
	value, err := read(f.value)
	if err != nil {
		b.reject(err, string(f.key))
	}
	return value
}

// values reads a free-form map.
func (b *body) values(name string) map[string]any { return decode(b, name, session.DecodeMap) }

func (b *body) content(name string) *genai.Content { return decode(b, name, session.DecodeContent) }

func (b *body) part(name string) *genai.Part { return decode(b, name, session.DecodePart) }

func (b *body) events(name string) []*session.Event {
	f := b.find(name)
	if f == nil {
		return nil
	}
	var items []json.RawMessage
	key := string(f.key)
	if json.Unmarshal(f.value, &items) != nil {
		b.fault("list_type", "Input should be a valid list", key)
	}
	events := make([]*session.Event, len(items))
	for i, item := range items {
		events[i] = new(session.Event)
		if err := events[i].UnmarshalJSON(item); err != nil {
			b.reject(err, key, i)
		} else if events[i].Author == "" {
			b.fault("missing", "Field required", key, i, "author")
		}
	}
	return events
}

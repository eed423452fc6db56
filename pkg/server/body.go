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

// An errorDetail is one error of a request body in adk-python's form: the kind, the
// keys that lead to the value, and a message.
type errorDetail struct {
	Type string `json:"type"`
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
}

// invalidBodyError lists the errors of a request body.
type invalidBodyError struct{ details []errorDetail }

// Error describes the first error.
func (e *invalidBodyError) Error() string {
	return fmt.Sprintf("request body: %v: %s", e.details[0].Loc, e.details[0].Msg)
}

// bodyReadError reports a request body that could not be read to its end.
type bodyReadError struct{ err error }

// Error returns the message for the log.
func (e *bodyReadError) Error() string { return "reading the request body: " + e.err.Error() }

// Unwrap returns the connection's error.
func (e *bodyReadError) Unwrap() error { return e.err }

// toFailure returns 408 or 400: the client was too slow or closed the connection.
func (e *bodyReadError) toFailure() failure {
	if errors.Is(e.err, os.ErrDeadlineExceeded) {
		return failure{http.StatusRequestTimeout, runtime.CodeInvalidRequest, "Request body timed out", 0}
	}
	return failure{http.StatusBadRequest, runtime.CodeInvalidRequest, "Request body is incomplete", 0}
}

// A body is a JSON object sent by a client. Each method reads one field by its
// camelCase name and records errors, which err returns together. Absent and null are
// the same.
type body struct {
	fields  []field
	details []errorDetail
	// inlineFields avoids an allocation for most bodies.
	inlineFields [8]field
}

// readBody reads a request body. An empty body is an object without fields. The error
// is a *[http.MaxBytesError], a [tooManyValuesError], an *[invalidBodyError] or a
// *[bodyReadError].
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) (*body, error) {
	text, err := s.readRawBody(w, r)
	if err != nil {
		return nil, err
	}
	b := &body{}
	if len(text) > 0 {
		b.parseObject(text)
	}
	return b, b.err()
}

// readRawBody reads a request body within the deadline set by ServeHTTP.
func (s *Server) readRawBody(w http.ResponseWriter, r *http.Request) (text []byte, err error) {
	if n := r.ContentLength; 0 <= n && n <= min(maxPreallocated, s.opts.MaxBody) {
		text = make([]byte, n)
		_, err = io.ReadFull(r.Body, text)
	} else {
		text, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	}
	if err != nil {
		return nil, &bodyReadError{err}
	}
	if exceedsMaxValues(text) {
		return nil, tooManyValuesError{}
	}
	return text, ignoreUnsupported(http.NewResponseController(w).SetReadDeadline(time.Time{}))
}

// maxPreallocated is the largest Content-Length for which the buffer is allocated in
// advance.
const maxPreallocated = 64 << 10

func (b *body) parseObject(text []byte) {
	if json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, jsonSpace), []byte("{")) {
		b.fields = appendFields(b.inlineFields[:0], text)
		return
	}
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(text, &map[string]json.RawMessage{}); {
	case errors.As(err, &syntax):
		b.addDetail("json_invalid", "JSON decode error: "+syntax.Error(), syntax.Offset)
	case err != nil:
		b.addDetail("model_attributes_type", "Input should be a valid object")
	}
}

func (b *body) addDetail(kind, message string, keys ...any) {
	b.details = append(b.details, errorDetail{kind, append([]any{"body"}, keys...), message})
}

// addFieldError records an error of pkg/session about the value at the keys.
func (b *body) addFieldError(err error, keys ...any) {
	var fe *session.FieldError
	if !errors.As(err, &fe) {
		fe = &session.FieldError{Message: err.Error()}
	}
	b.addDetail("value_error", fe.Message, slices.Concat(keys, fe.Path)...)
}

func (b *body) err() error {
	if len(b.details) == 0 {
		return nil
	}
	return &invalidBodyError{b.details}
}

// findField returns a field or nil. The camelCase key takes precedence.
func (b *body) findField(name string) (found *field) {
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

func (b *body) requireField(name string) {
	if b.findField(name) == nil {
		b.addDetail("missing", "Field required", name)
	}
}

func (b *body) readString(name string) string {
	f := b.findField(name)
	if f == nil {
		return ""
	}
	if text, ok := plainString(f.value); ok {
		return string(text)
	}
	var text string
	if json.Unmarshal(f.value, &text) != nil {
		b.addDetail("string_type", "Input should be a valid string", string(f.key))
	}
	return text
}

func (b *body) readBool(name string) *bool {
	f := b.findField(name)
	if f == nil {
		return nil
	}
	switch string(f.value) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	b.addDetail("bool_type", "Input should be a valid boolean", string(f.key))
	return nil
}

// decodeField reads a field with a decoder of pkg/session. An absent field is the zero
// value.
func decodeField[T any](b *body, name string, read func(text []byte, keys ...any) (T, error)) (value T) {
	f := b.findField(name)
	if f == nil {
		return value
	}
	value, err := read(f.value)
	if err != nil {
		b.addFieldError(err, string(f.key))
	}
	return value
}

// readMap reads a free-form object.
func (b *body) readMap(name string) map[string]any { return decodeField(b, name, session.DecodeMap) }

func (b *body) readContent(name string) *genai.Content {
	return decodeField(b, name, session.DecodeContent)
}

func (b *body) readPart(name string) *genai.Part { return decodeField(b, name, session.DecodePart) }

func (b *body) readEvents(name string) []*session.Event {
	f := b.findField(name)
	if f == nil {
		return nil
	}
	var items []json.RawMessage
	key := string(f.key)
	if json.Unmarshal(f.value, &items) != nil {
		b.addDetail("list_type", "Input should be a valid list", key)
	}
	events := make([]*session.Event, len(items))
	for i, item := range items {
		events[i] = new(session.Event)
		if err := events[i].UnmarshalJSON(item); err != nil {
			b.addFieldError(err, key, i)
		} else if events[i].Author == "" {
			b.addDetail("missing", "Field required", key, i, "author")
		}
	}
	return events
}

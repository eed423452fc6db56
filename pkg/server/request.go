package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/internal/charset"
	"agenthost/internal/limit"
	"agenthost/pkg/session"
)

// pathKey returns the session key in the path; missing parts are empty.
func pathKey(r *http.Request) session.Key {
	return session.Key{App: r.PathValue("app"), User: r.PathValue("user"), ID: r.PathValue("session")}
}

func readQueryFlag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, &invalidBodyError{[]errorDetail{{"bool_parsing", []any{"query", name}, "Input should be true or false"}}}
	}
	return on, nil
}

// readEventForm returns the form of events in the response: ADK's form, with the
// provenance of each event if the request has ?provenance=true.
func readEventForm(r *http.Request) (session.Form, error) {
	provenance, err := readQueryFlag(r, "provenance")
	return session.Form{Provenance: provenance}, err
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
// is a *[http.MaxBytesError], a [*limit.Error], an *[invalidBodyError] or a
// *[bodyReadError].
func (s *Services) readBody(w http.ResponseWriter, r *http.Request) (*body, error) {
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

// readRawBody reads a request body within the deadline set by ServeHTTP. JSON in UTF-16 or
// UTF-32, or with a byte order mark, becomes UTF-8: ADK reads all of them.
func (s *Services) readRawBody(w http.ResponseWriter, r *http.Request) (text []byte, err error) {
	if n := r.ContentLength; 0 <= n && n <= min(maxPreallocated, s.opts.MaxBody) {
		text = make([]byte, n)
		_, err = io.ReadFull(r.Body, text)
	} else {
		text, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.MaxBody))
	}
	if err != nil {
		return nil, &bodyReadError{err}
	}
	text = charset.DecodeJSON("", text)
	if err := limit.RequestBody.CheckValues(text); err != nil {
		return nil, err
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

// rejectUnknownFields records an error for each field with another name. ADK ignores
// such fields; requests that change what is stored must not do less than they request.
func (b *body) rejectUnknownFields(known ...string) {
	for i := range b.fields {
		key := b.fields[i].key
		if !slices.ContainsFunc(known, func(name string) bool { return string(key) == name || isSnakeCase(key, name) }) {
			b.addDetail("extra_forbidden", "Extra inputs are not permitted", string(key))
		}
	}
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

// jsonSpace is the white space that JSON allows between tokens.
const jsonSpace = " \t\r\n"

// A field is an unescaped key of a JSON object with its raw value.
type field struct {
	key   []byte
	value json.RawMessage
}

// appendFields splits an object, which must be valid JSON, into its fields. The last of
// several equal keys wins. It exists because encoding/json would copy every value once
// more before a typed decoder reads it.
func appendFields(all []field, text []byte) []field {
	text = bytes.TrimLeft(text, jsonSpace)[1:]
	for {
		text = bytes.TrimLeft(text, jsonSpace+",")
		if text[0] == '}' {
			return all
		}
		end := valueLength(text)
		key := decodeKey(text[:end])
		text = bytes.TrimLeft(text[end:], jsonSpace+":")
		end = valueLength(text)
		f := field{key, text[:end:end]}
		if i := slices.IndexFunc(all, func(f field) bool { return bytes.Equal(f.key, key) }); i >= 0 {
			all[i] = f
		} else {
			all = append(all, f)
		}
		text = text[end:]
	}
}

// valueLength returns the length of the value at the start of text.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch text[i] {
		case '"':
			i += stringLength(text[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			switch depth {
			case 0:
				return i // the enclosing value ends here
			case 1:
				return i + 1
			}
			depth--
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
}

// stringLength returns the length of the string at the start of text.
func stringLength(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func decodeKey(text []byte) []byte {
	if key, ok := plainString(text); ok {
		return key
	}
	var key string
	_ = json.Unmarshal(text, &key) // text is valid JSON
	return []byte(key)
}

// plainString returns the content of a JSON string that has no escapes.
func plainString(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	text = value[1 : len(value)-1]
	return text, bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text)
}

// isSnakeCase reports whether key is the snake_case form of a camelCase name.
func isSnakeCase(key []byte, name string) bool {
	i := 0
	next := func(c byte) bool {
		i++
		return i <= len(key) && key[i-1] == c
	}
	for _, c := range []byte(name) {
		if 'A' <= c && c <= 'Z' {
			if !next('_') {
				return false
			}
			c += 'a' - 'A'
		}
		if !next(c) {
			return false
		}
	}
	return i == len(key)
}

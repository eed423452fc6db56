// Package jsonbody reads JSON objects that clients of ADK's API send. Keys may be camelCase or
// snake_case; camelCase takes precedence. Errors have adk-python's form: all errors in a body
// together, each with the keys that lead to its value.
package jsonbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// A Detail is one error in a request: the kind, the keys that lead to the value, and a message.
type Detail struct {
	Type string `json:"type"`
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
}

// An InvalidError lists a request's errors, at least one.
type InvalidError struct{ Details []Detail }

// Error describes the first error.
func (e *InvalidError) Error() string {
	return fmt.Sprintf("request body: %v: %s", e.Details[0].Loc, e.Details[0].Msg)
}

// NewError returns an [*InvalidError] about the value at the keys.
func NewError(kind, message string, keys ...any) error {
	return &InvalidError{[]Detail{{kind, keys, message}}}
}

// Parse parses a body; an empty one is an object without fields. The body's Err has the syntax
// errors. The body refers to the text.
func Parse(text []byte) *Body {
	b := &Body{}
	if len(text) > 0 {
		b.parseObject(text)
	}
	return b
}

// A Body is a JSON object sent by a client. Each method reads one field by its
// camelCase name and records errors, which Err returns together. Absent and null are
// the same.
type Body struct {
	// Fields are the object's fields in its order.
	Fields  []Field
	details []Detail
	// inlineFields avoids an allocation for most bodies.
	inlineFields [8]Field
}

func (b *Body) parseObject(text []byte) {
	if json.Valid(text) && bytes.HasPrefix(bytes.TrimLeft(text, jsonSpace), []byte("{")) {
		b.Fields = appendFields(b.inlineFields[:0], text)
		return
	}
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(text, &map[string]json.RawMessage{}); {
	case errors.As(err, &syntax):
		b.AddDetail("json_invalid", "JSON decode error: "+syntax.Error(), syntax.Offset)
	case err != nil:
		b.AddDetail("model_attributes_type", "Input should be a valid object")
	}
}

// AddDetail records an error about the value at the keys.
func (b *Body) AddDetail(kind, message string, keys ...any) {
	b.details = append(b.details, Detail{kind, append([]any{"body"}, keys...), message})
}

// AddFieldError records a pkg/session error about the value at the keys.
func (b *Body) AddFieldError(err error, keys ...any) {
	var fe *session.FieldError
	if !errors.As(err, &fe) {
		fe = &session.FieldError{Message: err.Error()}
	}
	b.AddDetail("value_error", fe.Message, slices.Concat(keys, fe.Path)...)
}

// Err returns the recorded errors together as an [*InvalidError], or nil.
func (b *Body) Err() error {
	if len(b.details) == 0 {
		return nil
	}
	return &InvalidError{b.details}
}

// FindField returns a field or nil. The camelCase key takes precedence.
func (b *Body) FindField(name string) (found *Field) {
	for i := range b.Fields {
		switch f := &b.Fields[i]; {
		case string(f.Value) == "null":
		case string(f.Key) == name:
			return f
		case IsSnakeCase(f.Key, name):
			found = f
		}
	}
	return found
}

// RejectUnknownFields records an error for each field with another name. ADK ignores
// such fields; requests that change what is stored must not do less than they request.
func (b *Body) RejectUnknownFields(known ...string) {
	for i := range b.Fields {
		key := b.Fields[i].Key
		if !slices.ContainsFunc(known, func(name string) bool { return string(key) == name || IsSnakeCase(key, name) }) {
			b.AddDetail("extra_forbidden", "Extra inputs are not permitted", string(key))
		}
	}
}

// RequireField records an error if the field is absent.
func (b *Body) RequireField(name string) {
	if b.FindField(name) == nil {
		b.AddDetail("missing", "Field required", name)
	}
}

// ReadString reads a string; an absent field is empty.
func (b *Body) ReadString(name string) string {
	f := b.FindField(name)
	if f == nil {
		return ""
	}
	if text, ok := plainString(f.Value); ok {
		return string(text)
	}
	var text string
	if json.Unmarshal(f.Value, &text) != nil {
		b.AddDetail("string_type", "Input should be a valid string", string(f.Key))
	}
	return text
}

// ReadBool reads a boolean; an absent field is nil.
func (b *Body) ReadBool(name string) *bool {
	f := b.FindField(name)
	if f == nil {
		return nil
	}
	switch string(f.Value) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	b.AddDetail("bool_type", "Input should be a valid boolean", string(f.Key))
	return nil
}

// decodeField reads a field with a pkg/session decoder. An absent field is the zero value.
func decodeField[T any](b *Body, name string, read func(text []byte, keys ...any) (T, error)) (value T) {
	f := b.FindField(name)
	if f == nil {
		return value
	}
	value, err := read(f.Value)
	if err != nil {
		b.AddFieldError(err, string(f.Key))
	}
	return value
}

// ReadMap reads a free-form object.
func (b *Body) ReadMap(name string) map[string]any { return decodeField(b, name, session.DecodeMap) }

// ReadContent reads a message; an absent field is nil.
func (b *Body) ReadContent(name string) *genai.Content {
	return decodeField(b, name, session.DecodeContent)
}

// ReadPart reads a message part; an absent field is nil.
func (b *Body) ReadPart(name string) *genai.Part { return decodeField(b, name, session.DecodePart) }

// ReadEvents reads an event list, each with its author.
func (b *Body) ReadEvents(name string) []*session.Event {
	f := b.FindField(name)
	if f == nil {
		return nil
	}
	var items []json.RawMessage
	key := string(f.Key)
	if json.Unmarshal(f.Value, &items) != nil {
		b.AddDetail("list_type", "Input should be a valid list", key)
	}
	events := make([]*session.Event, len(items))
	for i, item := range items {
		events[i] = new(session.Event)
		if err := events[i].UnmarshalJSON(item); err != nil {
			b.AddFieldError(err, key, i)
		} else if events[i].Author == "" {
			b.AddDetail("missing", "Field required", key, i, "author")
		}
	}
	return events
}

// jsonSpace is the white space that JSON allows between tokens.
const jsonSpace = " \t\r\n"

// A Field is an unescaped key in a JSON object with its raw value.
type Field struct {
	Key   []byte
	Value json.RawMessage
}

// appendFields splits an object, which must be valid JSON, into its fields. If keys are equal, the
// last one wins. It exists because encoding/json would copy every value once more before a typed
// decoder reads it.
func appendFields(all []Field, text []byte) []Field {
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
		f := Field{key, text[:end:end]}
		if i := slices.IndexFunc(all, func(f Field) bool { return bytes.Equal(f.Key, key) }); i >= 0 {
			all[i] = f
		} else {
			all = append(all, f)
		}
		text = text[end:]
	}
}

// valueLength returns the length of the value that begins text.
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

// stringLength returns the length of the string that begins text.
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

// plainString returns a JSON string's content if it has no escapes.
func plainString(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' {
		return nil, false
	}
	text = value[1 : len(value)-1]
	return text, bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text)
}

// IsSnakeCase reports whether key is a camelCase name in snake_case.
func IsSnakeCase(key []byte, name string) bool {
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

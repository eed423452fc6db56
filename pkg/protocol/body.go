package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"agenthost/internal/adkjson"
	"agenthost/internal/buffers"
	"agenthost/pkg/server"
)

// A FieldError is a value in a request's body that has the wrong type.
type FieldError struct {
	// Field is the path of the value; empty for the body.
	Field, Message string
}

// Error returns the message for the client.
func (e *FieldError) Error() string { return e.Message }

// A MessageReader is a body most of which are the messages in its key messages.
type MessageReader interface {
	// ReadMessages reads the list. It returns false for an unusual one, which encoding/json reads.
	ReadMessages(r *adkjson.Decoder) bool
}

// ReadObject reads a request's body, a JSON object, into q, which may be a [MessageReader]. The error is a
// [*FieldError], or one of the server's.
func ReadObject(s *server.Services, w http.ResponseWriter, r *http.Request, q any) error {
	text, err := s.ReadText(w, r)
	if err != nil {
		return err
	}
	if m, ok := q.(MessageReader); ok {
		if readWithMessages(text, m) {
			return nil
		}
		reflect.ValueOf(q).Elem().SetZero()
	}
	err = json.Unmarshal(text, q)
	var wrong *json.UnmarshalTypeError
	switch {
	case err != nil && len(text) > 0 && !json.Valid(text):
		return server.DecodeJSON(text, new(json.RawMessage)) // reports the place
	case errors.As(err, &wrong) && wrong.Field != "":
		return &FieldError{wrong.Field, fmt.Sprintf("%s must be %s, got %s", wrong.Field, nameType(wrong.Type.Kind().String()), wrong.Value)}
	case err != nil:
		return &FieldError{"", "The body must be a JSON object"}
	}
	return nil
}

// readWithMessages reads a body; false for an unusual one, or one with an error. Messages are read in one pass,
// the other fields as ever.
func readWithMessages(text []byte, q MessageReader) bool {
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	isUsual, found := true, false
	rest := append(*buffer, '{')
	r := &adkjson.Decoder{Buf: text}
	r.ReadObject(func(key []byte) {
		if string(key) == "messages" {
			isUsual = isUsual && !found && q.ReadMessages(r)
			found = true
			return
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(adkjson.AppendString(rest, string(key)), ':')
		rest = append(rest, r.ReadRawValue()...)
		isUsual = isUsual && !bytes.EqualFold(key, []byte("messages"))
	})
	*buffer = append(rest, '}')
	return isUsual && r.CheckEnd() == nil && json.Unmarshal(*buffer, q) == nil
}

// ReadMessages reads a list for [MessageReader]: read reads each field in a message, and returns false for an
// unusual one.
func ReadMessages[T any](r *adkjson.Decoder, list *[]T, read func(m *T, key, value []byte) bool) bool {
	all := make([]T, 0, min(bytes.Count(r.Buf, []byte(`"role"`)), maxRoom))
	isUsual := true
	var m *T
	var keys [maxMessageKeys][]byte
	n := 0
	readField := func(key []byte) {
		value := r.ReadRawValue()
		isNew := !slices.ContainsFunc(keys[:n], func(other []byte) bool { return bytes.Equal(other, key) })
		if isUsual = isUsual && n < len(keys) && isNew && r.Err == nil && read(m, key, value); isUsual {
			keys[n] = key
			n++
		}
	}
	r.ReadList(func(int) {
		all = slices.Grow(all, 1)[:len(all)+1]
		m, n = &all[len(all)-1], 0
		r.ReadObject(readField)
	})
	*list = all
	return isUsual && r.Err == nil
}

// maxRoom limits the messages for which room is made before they are read.
const maxRoom = 256

// maxMessageKeys is how many keys a usual message has at most.
const maxMessageKeys = 8

// ReadText returns a value if it is a string. Most strings have no escapes, and are as they are on the wire.
func ReadText(value []byte) (text string, isText bool) {
	if isPlainText(value) {
		return string(value[1 : len(value)-1]), true
	}
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	err := json.Unmarshal(value, &text)
	return text, err == nil
}

// isPlainText reports whether a value is a string without escapes.
func isPlainText(value []byte) bool {
	return len(value) > 1 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value)
}

// A StringRoom has memory for short strings, such as the messages' IDs, so that many need one allocation. Clone
// a string that stays longer than the others.
type StringRoom struct{ chunk strings.Builder }

// maxTextChunk limits an allocation.
const maxTextChunk = 512

// ReadText is [ReadText] for a short string.
func (t *StringRoom) ReadText(value []byte) (text string, isText bool) {
	n, room := len(value), t.chunk.Cap()
	if !isPlainText(value) || n > maxTextChunk {
		return ReadText(value)
	}
	if room-t.chunk.Len() < n {
		t.chunk.Reset()
		t.chunk.Grow(max(n, min(2*room, maxTextChunk)))
	}
	start := t.chunk.Len()
	t.chunk.Write(value[1 : n-1])
	return t.chunk.String()[start:], true
}

// ReadRole is [ReadText] for a message's role.
func ReadRole(value []byte) (role string, isText bool) {
	for _, known := range roles {
		if len(value) == len(known)+2 && string(value[1:len(value)-1]) == known {
			return known, value[0] == '"'
		}
	}
	return ReadText(value)
}

var roles = []string{"user", "assistant", "system", "developer", "tool"}

// nameType names a Go type as JSON's.
func nameType(kind string) string {
	switch kind {
	case "bool":
		return "a boolean"
	case "int":
		return "an integer"
	case "slice":
		return "an array"
	case "map", "struct":
		return "an object"
	}
	return "a " + kind
}

// Package fakeodd makes fake model services' answers odd: what compatible servers and gateways send
// in other forms than the API, and clients read nevertheless.
package fakeodd

import (
	"bytes"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"strings"
)

// A Kind is one way to be odd; "" is none.
type Kind string

// The kinds. A fake whose API does not know a field answers as usual.
const (
	// Arguments writes a call's arguments as an object where the API has its JSON, and as JSON
	// where the API has an object.
	Arguments Kind = "arguments in the other form"
	// NumericIDs writes call IDs as numbers.
	NumericIDs Kind = "numeric IDs of calls"
	// Counts writes token counts as 4.0.
	Counts Kind = "counts with a fraction"
	// Mark begins the body with a byte order mark.
	Mark Kind = "byte order mark"
	// OtherMode answers a request for a stream with JSON, and one for JSON with a stream.
	OtherMode Kind = "JSON for a stream and the reverse"
	// Names repeats a function's name in each chunk of its call.
	Names Kind = "name in each chunk"
	// SplitNames splits a function's name over chunks.
	SplitNames Kind = "name split over chunks"
	// Summary repeats each whole call in a chunk at the end.
	Summary Kind = "summary chunk"
	// Growing writes in each chunk the whole call so far.
	Growing Kind = "chunks that grow"
	// PlainText writes the content list as its only text.
	PlainText Kind = "text for a list of contents"
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Arguments, NumericIDs, Counts, Mark, OtherMode, Names, SplitNames, Summary, Growing, PlainText}
}

// Streams returns whether a request is answered with a stream.
func (k Kind) Streams(requested bool) bool { return requested != (k == OtherMode) }

// WrapWriter returns a writer that rewrites each JSON line in an answer; each ends with a line
// feed.
func (k Kind) WrapWriter(w http.ResponseWriter) http.ResponseWriter {
	if k == "" {
		return w
	}
	return &lineWriter{ResponseWriter: w, kind: k}
}

type lineWriter struct {
	http.ResponseWriter
	kind    Kind
	line    []byte
	started bool
}

// Unwrap is called by [http.ResponseController].
func (w *lineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write rewrites the lines that are complete.
func (w *lineWriter) Write(b []byte) (int, error) {
	w.line = append(w.line, b...)
	for {
		i := bytes.IndexByte(w.line, '\n')
		if i < 0 {
			return len(b), nil
		}
		line := w.rewriteLine(w.line[:i+1])
		w.line = w.line[i+1:]
		if w.kind == Mark && !w.started {
			line = append([]byte("\xef\xbb\xbf"), line...)
		}
		w.started = true
		if _, err := w.ResponseWriter.Write(line); err != nil {
			return 0, err
		}
	}
}

func (w *lineWriter) rewriteLine(line []byte) []byte {
	field, text, isEvent := bytes.Cut(line, []byte("data: "))
	if !isEvent || len(field) > 0 {
		field, text = nil, line
	} else {
		field = []byte("data: ")
	}
	var value any
	if json.Unmarshal(text, &value) != nil {
		return line
	}
	raw, err := json.Marshal(w.kind.rewriteValue("", value))
	if err != nil {
		return line
	}
	return append(append(bytes.Clone(field), raw...), '\n')
}

// rewriteValue returns a JSON value in the odd form. key is the value's key.
func (k Kind) rewriteValue(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			v[name] = k.rewriteValue(name, inner)
		}
		_, isCall := v["name"]
		_, hasFunction := v["function"]
		for _, name := range []string{"id", "call_id"} {
			if id, ok := v[name].(string); ok && k == NumericIDs && (isCall || hasFunction) {
				v[name] = crc32.ChecksumIEEE([]byte(id))
			}
		}
	case []any:
		for i := range v {
			v[i] = k.rewriteValue("", v[i])
		}
		if k == PlainText && key == "content" && len(v) == 1 {
			if block, ok := v[0].(map[string]any); ok && block["text"] != nil {
				return block["text"]
			}
		}
	case float64:
		lower := strings.ToLower(key)
		if k == Counts && (strings.HasSuffix(lower, "_tokens") || strings.HasSuffix(lower, "_count") || strings.HasSuffix(lower, "tokencount")) {
			return json.RawMessage(strings.TrimSuffix(string(encodeValue(v)), ".0") + ".0")
		}
	}
	if k == Arguments && (key == "arguments" || key == "args" || key == "input") {
		return otherForm(value)
	}
	return value
}

// otherForm returns an object for its JSON, and its JSON for an object.
func otherForm(value any) any {
	switch v := value.(type) {
	case string:
		var object map[string]any
		if json.Unmarshal([]byte(v), &object) == nil && object != nil {
			return object
		}
	case map[string]any:
		if len(v) > 0 {
			return string(encodeValue(v))
		}
	}
	return value
}

func encodeValue(v any) []byte {
	raw, _ := json.Marshal(v) // decoded from JSON
	return raw
}

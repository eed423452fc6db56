package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"agenthost/pkg/session"
)

// EncodeValue returns a normalized value's JSON.
func EncodeValue(v any) (string, error) {
	b, err := appendValue(make([]byte, 0, 64), v)
	return string(b), err
}

func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return appendFloat(b, v), nil
	case []any:
		return appendList(b, v)
	case map[string]any:
		return AppendMap(b, v)
	default:
		text, err := json.Marshal(v)
		return append(b, text...), err
	}
}

// appendFloat always writes a point or an exponent, so that a float is decoded
// as a float.
func appendFloat(b []byte, f float64) []byte {
	start := len(b)
	b = strconv.AppendFloat(b, f, 'g', -1, 64)
	if !bytes.ContainsAny(b[start:], ".e") {
		b = append(b, ".0"...)
	}
	return b
}

func appendList(b []byte, list []any) ([]byte, error) {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendValue(b, v); err != nil {
			return b, err
		}
	}
	return append(b, ']'), nil
}

// AppendMap appends the JSON for a map with normalized values.
func AppendMap(b []byte, m map[string]any) ([]byte, error) {
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := json.Marshal(k)
		if err != nil {
			return b, err
		}
		b = append(append(b, name...), ':')
		if b, err = appendValue(b, m[k]); err != nil {
			return b, err
		}
	}
	return append(b, '}'), nil
}

// DecodeValue decodes EncodeValue's output. The most frequent value, a string without escapes,
// needs no decoder.
func DecodeValue(text []byte) (any, error) {
	n := len(text)
	if n > 1 && text[0] == '"' && text[n-1] == '"' && bytes.IndexByte(text, '\\') < 0 {
		return string(text[1 : n-1]), nil
	}
	m, err := session.DecodeMap(slices.Concat([]byte(`{"v":`), text, []byte(`}`)))
	if err != nil {
		// Not ErrInvalid: the value comes from the database, not from the caller.
		return nil, fmt.Errorf("reading a state value: %s", err)
	}
	return m["v"], nil
}

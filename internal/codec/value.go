// Package codec validates the keys and converts the values that the backends of
// package store write.
package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"agenthost/pkg/session"
)

// maxDepth bounds the nesting of a state value.
const maxDepth = 100

// CanonicalizeState returns a copy of a state delta in which every value is what a
// database would give back, see [session.Normalize]. Keys and values that
// cannot be stored are ErrInvalid.
func CanonicalizeState(delta map[string]any) (map[string]any, error) {
	if len(delta) == 0 {
		return delta, nil
	}
	c := make(map[string]any, len(delta))
	for k, v := range delta {
		if err := CheckText("state key", k, MaxKey); err != nil {
			return nil, err
		}
		v = session.Normalize(v)
		if err := checkValue(v, 0); err != nil {
			return nil, fmt.Errorf("state key %q: %w", k, err)
		}
		c[k] = v
	}
	return c, nil
}

// checkValue rejects normalized values that JSON cannot represent.
func checkValue(v any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("value exceeds the nesting limit of %d: %w", maxDepth, session.ErrInvalid)
	}
	switch v := v.(type) {
	case nil, bool, string, int64, json.Number:
		return nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%v is not a JSON number: %w", v, session.ErrInvalid)
		}
		return nil
	case []any:
		for _, item := range v {
			if err := checkValue(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	case map[string]any:
		for _, item := range v {
			if err := checkValue(item, depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("%T is not a JSON value: %w", v, session.ErrInvalid)
	}
}

// CloneValue copies the lists and maps of a normalized value.
func CloneValue(v any) any {
	switch v := v.(type) {
	case []any:
		c := make([]any, len(v))
		for i, item := range v {
			c[i] = CloneValue(item)
		}
		return c
	case map[string]any:
		return CloneMap(v)
	default:
		return v
	}
}

// CloneMap copies a map of normalized values.
func CloneMap(m map[string]any) map[string]any {
	c := make(map[string]any, len(m))
	for k, v := range m {
		c[k] = CloneValue(v)
	}
	return c
}

// EncodeValue returns the JSON of a normalized value.
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

// AppendMap appends the JSON of a map of normalized values.
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

// DecodeValue decodes the output of EncodeValue. The most frequent value, a
// string without escapes, needs no decoder.
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

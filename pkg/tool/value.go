package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"

	"agenthost/pkg/session"
)

// normal brings a value into the form that its schema asks for: defaults in,
// whole numbers as int64. A nil schema asks for nothing. Values that change
// are copied, never changed in place.
func normal(schema map[string]any, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return normalObject(schema, v)
	case []any:
		items := mapOf(schema["items"])
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = normal(items, item)
		}
		return list
	case json.Number:
		return whole(schema, number(v))
	}
	return whole(schema, v)
}

// whole turns a float without fraction into an integer where one is wanted.
func whole(schema map[string]any, v any) any {
	f, ok := v.(float64)
	if ok && wants(schema, "integer") && f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f)
	}
	return v
}

func normalObject(schema, m map[string]any) map[string]any {
	props := mapOf(schema["properties"])
	full := make(map[string]any, max(len(m), len(props)))
	required := listOf(schema["required"])
	for name, v := range m {
		prop := mapOf(props[name])
		if v == nil && prop != nil && !slices.Contains(required, any(name)) && !takesNull(prop) {
			continue
		}
		full[name] = normal(prop, v)
	}
	for name, prop := range props {
		if _, ok := full[name]; !ok && hasDefault(prop) {
			full[name] = normal(mapOf(prop), mapOf(prop)["default"])
		}
	}
	return full
}

func hasDefault(schema any) bool {
	_, ok := mapOf(schema)["default"]
	return ok
}

// wants says whether the schema's type is, or may be, the given one.
func wants(schema map[string]any, kind string) bool {
	if s, ok := schema["type"].(string); ok {
		return s == kind
	}
	return slices.Contains(listOf(schema["type"]), any(kind))
}

// takesNull says whether null is a value of its own in the schema.
func takesNull(schema map[string]any) bool {
	_, typed := schema["type"]
	return !typed || wants(schema, "null")
}

func mapOf(v any) map[string]any { m, _ := v.(map[string]any); return m }

func listOf(v any) []any { l, _ := v.([]any); return l }

// number is the number as int64 if it is one, else as float64. A whole number
// too large for both stays as it is written.
func number(n json.Number) any {
	if i, err := n.Int64(); err == nil {
		return i
	}
	whole := !bytes.ContainsAny([]byte(n), ".eE")
	if f, err := n.Float64(); err == nil && !whole {
		return f
	}
	return n
}

// decodeJSON reads exactly one JSON value. Integers stay integers.
func decodeJSON(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows after the value")
	}
	return normal(nil, v), nil
}

// plain turns any Go value into what JSON has.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case nil, string, bool, int64:
		return v, nil
	case float64:
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, nil
		}
	case int:
		return int64(v), nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return session.DecodeValue(raw)
}

// answer makes a result of a value: an object as it is, anything else under
// the key result.
func answer(v any) *Result {
	if m, ok := v.(map[string]any); ok && m != nil {
		return &Result{Response: m}
	}
	return &Result{Response: map[string]any{"result": v}}
}

package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"agenthost/internal/number"
	"agenthost/pkg/session"
)

// normalizeValue converts a value to the form of its schema: with the defaults of
// required properties, and integers as int64. A nil schema requires nothing.
// Changed values are copied, never modified in place.
func normalizeValue(schema map[string]any, v any) any {
	switch v := v.(type) {
	case map[string]any:
		return normalizeObject(schema, v)
	case []any:
		items := asMap(schema["items"])
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = normalizeValue(items, item)
		}
		return list
	}
	if acceptsType(schema, "integer") {
		return wholeNumber(v)
	}
	if n, ok := v.(json.Number); ok {
		return number.Parse(string(n))
	}
	return v
}

// wholeNumber converts a number without fraction to an integer: services write 5 as 5.0.
func wholeNumber(v any) any {
	switch n := v.(type) {
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<63 {
			return int64(n)
		}
	case json.Number:
		return number.ParseWhole(string(n))
	}
	return v
}

func normalizeObject(schema, m map[string]any) map[string]any {
	props := asMap(schema["properties"])
	full := make(map[string]any, max(len(m), len(props)))
	required := asList(schema["required"])
	for name, v := range m {
		prop := asMap(props[name])
		if v == nil && prop != nil && !slices.Contains(required, any(name)) && !acceptsNull(prop) {
			continue
		}
		full[name] = normalizeValue(prop, v)
	}
	for _, name := range required {
		if name, ok := name.(string); ok {
			addDefault(full, name, props[name])
		}
	}
	return full
}

// addDefault adds the default of a property that an object lacks. Null is the default of
// no value.
func addDefault(object map[string]any, name string, prop any) {
	value, ok := asMap(prop)["default"]
	if _, given := object[name]; given || !ok || value == nil && !acceptsNull(asMap(prop)) {
		return
	}
	object[name] = normalizeValue(asMap(prop), value)
}

// fillDefaults adds the defaults of all properties to a value of [normalizeValue] that its
// schema accepts. A default is not validated: it could contradict a keyword
// such as maxProperties.
func fillDefaults(schema map[string]any, v any) {
	switch v := v.(type) {
	case map[string]any:
		props := asMap(schema["properties"])
		for name, inner := range v {
			fillDefaults(asMap(props[name]), inner)
		}
		for name, prop := range props {
			addDefault(v, name, prop)
		}
	case []any:
		items := asMap(schema["items"])
		for _, item := range v {
			fillDefaults(items, item)
		}
	}
}

func hasDefault(schema any) bool {
	_, ok := asMap(schema)["default"]
	return ok
}

// acceptsType reports whether the schema's type is, or includes, the given one.
func acceptsType(schema map[string]any, kind string) bool {
	if s, ok := schema["type"].(string); ok {
		return s == kind
	}
	return slices.Contains(asList(schema["type"]), any(kind))
}

// acceptsNull reports whether the schema may accept null, by its type or its enum.
func acceptsNull(schema map[string]any) bool {
	if enum, ok := schema["enum"]; ok && !slices.Contains(asList(enum), nil) {
		return false
	}
	_, typed := schema["type"]
	return !typed || acceptsType(schema, "null")
}

func asMap(v any) map[string]any { m, _ := v.(map[string]any); return m }

func asList(v any) []any { l, _ := v.([]any); return l }

// decodeJSON decodes exactly one JSON value, by the rules of [session.DecodeValue]. The
// error is that of a service or a model, so it is no [session.ErrInvalid].
func decodeJSON(raw []byte) (any, error) {
	v, err := session.DecodeValue(raw)
	if err != nil {
		return nil, errors.New(err.Error())
	}
	return v, nil
}

// checkNumbers returns an error for a number whose exponent would make the schema's
// arithmetic slow.
func checkNumbers(v any) error {
	switch v := v.(type) {
	case json.Number:
		if !number.IsPrintable(v) {
			return fmt.Errorf("the exponent of %.60s exceeds the limit of %d", string(v), number.MaxExponent)
		}
	case []any:
		for _, item := range v {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range v {
			if err := checkNumbers(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertToJSON converts any Go value to JSON types.
func convertToJSON(v any) (any, error) {
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

// NewResult returns the result for a value: an object as it is, any other value
// under the key result.
func NewResult(v any) *Result {
	if m, ok := v.(map[string]any); ok && m != nil {
		return &Result{Response: m}
	}
	return &Result{Response: map[string]any{"result": v}}
}

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"agenthost/internal/limit"
	"agenthost/internal/number"
	"agenthost/pkg/session"
)

// The bounds for normalizing one value, whose cost grows with the value times its schema.
const (
	maxNormalizeSteps = 4_000_000
	maxDefaultBytes   = 1 << 20
)

// A normalizer converts one value to its schema's form. Once err is set, its results do not count.
type normalizer struct {
	ctx context.Context
	// steps and bytes are what is left for time and for the size of defaults.
	steps, bytes int
	err          error
}

func newNormalizer(ctx context.Context) *normalizer {
	return &normalizer{ctx: ctx, steps: maxNormalizeSteps, bytes: maxDefaultBytes}
}

// chargeSteps takes steps from the budget. It returns false if the value costs too much.
func (n *normalizer) chargeSteps(steps int) bool {
	before := n.steps
	n.steps -= steps
	switch {
	case n.err != nil:
		return false
	case n.steps < 0:
		n.err = fmt.Errorf("converting the value to its schema exceeds the limit of %d steps", maxNormalizeSteps)
	case before>>12 != n.steps>>12 && n.ctx.Err() != nil:
		n.err = context.Cause(n.ctx)
	}
	return n.err == nil
}

// normalizeValue converts a value to its schema's form: with the required properties' defaults, and
// integers as int64. A nil schema requires nothing. Changed values are copied, never modified in
// place.
func (n *normalizer) normalizeValue(schema map[string]any, v any) any {
	if !n.chargeSteps(1) {
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		return n.normalizeObject(schema, v)
	case []any:
		items := asMap(schema["items"])
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = n.normalizeValue(items, item)
		}
		return list
	}
	if acceptsType(schema, "integer") {
		v = wholeNumber(v)
	} else if text, ok := v.(json.Number); ok {
		v = number.Parse(string(text))
	}
	if text, ok := v.(json.Number); ok && n.err == nil {
		n.err = checkNumber(text)
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

func (n *normalizer) normalizeObject(schema, m map[string]any) map[string]any {
	props := asMap(schema["properties"])
	full := make(map[string]any, len(m))
	required := asList(schema["required"])
	for name, v := range m {
		prop := asMap(props[name])
		if v == nil && prop != nil && !acceptsNull(prop) && n.chargeSteps(len(required)) && !slices.Contains(required, any(name)) {
			continue
		}
		full[name] = n.normalizeValue(prop, v)
	}
	if n.chargeSteps(len(required)) {
		for _, name := range required {
			if name, ok := name.(string); ok {
				n.addDefault(full, name, props[name])
			}
		}
	}
	return full
}

// addDefault adds a property's default if an object lacks it. Null is not a default.
func (n *normalizer) addDefault(object map[string]any, name string, prop any) {
	value, ok := asMap(prop)["default"]
	if _, given := object[name]; given || !ok || value == nil && !acceptsNull(asMap(prop)) || n.err != nil {
		return
	}
	if n.bytes -= len(name) + sizeOf(value); n.bytes < 0 {
		n.err = fmt.Errorf("the value's defaults exceed the limit of %d MiB", maxDefaultBytes>>20)
		return
	}
	object[name] = n.normalizeValue(asMap(prop), value)
}

// sizeOf estimates a value's size as JSON.
func sizeOf(v any) int {
	size := 8
	switch v := v.(type) {
	case string:
		size += len(v)
	case []any:
		for _, item := range v {
			size += sizeOf(item)
		}
	case map[string]any:
		for name, item := range v {
			size += len(name) + sizeOf(item)
		}
	}
	return size
}

// fillDefaults adds all properties' defaults to a value from [normalizer.normalizeValue] that its
// schema accepts. A default is not validated: it could contradict a keyword such as maxProperties.
func (n *normalizer) fillDefaults(schema map[string]any, v any) {
	if len(schema) == 0 || !n.chargeSteps(1) {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		props := asMap(schema["properties"])
		if !n.chargeSteps(len(props)) {
			return
		}
		for name, inner := range v {
			n.fillDefaults(asMap(props[name]), inner)
		}
		for name, prop := range props {
			n.addDefault(v, name, prop)
		}
	case []any:
		items := asMap(schema["items"])
		for _, item := range v {
			n.fillDefaults(items, item)
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

// DecodeResult decodes exactly one JSON value, by the rules of [session.DecodeValue]. A service or
// a model causes the error, so it is no [session.ErrInvalid].
func DecodeResult(raw []byte) (any, error) {
	if err := CheckResult(raw); err != nil {
		return nil, err
	}
	v, err := session.DecodeValue(raw)
	if err != nil {
		return nil, errors.New(err.Error())
	}
	return v, nil
}

// CheckResult checks the values in a tool's JSON before it is decoded.
func CheckResult(raw []byte) error { return limit.ToolResult.CheckValues(raw) }

// checkNumber returns an error for a number whose exponent would make the schema's
// arithmetic slow.
func checkNumber(n json.Number) error {
	if !number.IsPrintable(n) {
		return fmt.Errorf("the exponent of %.60s exceeds the limit of %d", string(n), number.MaxExponent)
	}
	return nil
}

// NewResult returns the result for a value: an object as it is, any other value
// under the key result.
func NewResult(v any) *Result {
	if m, ok := v.(map[string]any); ok && m != nil {
		return &Result{Response: m}
	}
	return &Result{Response: map[string]any{"result": v}}
}

// sampleValue returns a value with a schema's type, or nil.
func sampleValue(schema map[string]any) any {
	switch schema["type"] {
	case "string":
		return ""
	case "integer":
		return int64(0)
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	default:
		return nil
	}
}

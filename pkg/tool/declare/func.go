package declare

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"agenthost/internal/number"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// Func returns a tool that calls a Go function. In is a struct whose
// exported fields are the parameters: named by their json tags, described by
// their doc tags, optional if they are pointers or have omitempty or omitzero.
// Fields may be strings, booleans, numbers, [time.Time], any, and structs,
// slices, pointers and string maps of those. A struct without fields takes no
// parameters.
//
// A json.Number has any number's digits. A number in an any field is a float64, or a json.Number
// where a float64 would round it: 9007199254740993, 1e400.
//
// Arguments that In does not declare are rejected. A result that is a JSON
// object is the response as it is, any other value becomes {"result": …}; a nil
// pointer or map becomes {"result": null}. fn must be safe for concurrent use.
// Func returns an error if name or In cannot be declared.
func Func[In, Out any](
	name, description string, fn func(context.Context, *tool.Call, In) (Out, error),
) (tool.Tool, error) {
	schema, err := structSchema(reflect.TypeFor[In]())
	if err != nil {
		return nil, fmt.Errorf("declaring tool %s: %w", name, err)
	}
	d, err := Tool(name, description, schema)
	if err != nil {
		return nil, fmt.Errorf("declaring tool %s: %w", name, err)
	}
	return &funcTool[In, Out]{Declared: d, fn: fn}, nil
}

type funcTool[In, Out any] struct {
	*tool.Declared
	fn func(context.Context, *tool.Call, In) (Out, error)
}

// Run implements [tool.Tool].
func (t *funcTool[In, Out]) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	in, err := decodeArgs[In](call.Args)
	if err != nil {
		return nil, fmt.Errorf("%s: decoding arguments: %w", t.Declaration().Name, err)
	}
	out, err := t.fn(ctx, call, in)
	if err != nil {
		return nil, err
	}
	v, err := convertToJSON(out)
	if err != nil {
		return nil, fmt.Errorf("%s: encoding result: %w", t.Declaration().Name, err)
	}
	return tool.NewResult(v), nil
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

func decodeArgs[In any](args map[string]any) (In, error) {
	var in In
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return in, err
	}
	err = number.Decode(raw, &in) // the schema has rejected arguments that In does not declare
	return in, err
}

// structSchema returns a Go struct's JSON Schema, as [Func] describes it.
func structSchema(t reflect.Type) (map[string]any, error) {
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() {
		return nil, fmt.Errorf("parameters must be a struct, got %s", t)
	}
	return nestedStructSchema(t, nil)
}

// typeSchema returns t's JSON Schema; above lists the structs that contain t.
func typeSchema(t reflect.Type, above []reflect.Type) (map[string]any, error) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}, nil
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[any]():
		return map[string]any{}, nil
	case reflect.TypeFor[json.Number]():
		return map[string]any{"type": "number"}, nil
	}
	switch t.Kind() {
	case reflect.String:
		return map[string]any{"type": "string"}, nil
	case reflect.Bool:
		return map[string]any{"type": "boolean"}, nil
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return map[string]any{"type": "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return map[string]any{"type": "integer", "minimum": 0}, nil
	case reflect.Pointer:
		return typeSchema(t.Elem(), above)
	case reflect.Slice, reflect.Array, reflect.Map:
		return collectionSchema(t, above)
	case reflect.Struct:
		return nestedStructSchema(t, above)
	}
	return nil, fmt.Errorf("%s has no JSON Schema", t)
}

func collectionSchema(t reflect.Type, above []reflect.Type) (map[string]any, error) {
	if t.Kind() == reflect.Map && t.Key().Kind() != reflect.String {
		return nil, fmt.Errorf("%s has no JSON Schema: keys must be strings", t)
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		return map[string]any{"type": "string", "contentEncoding": "base64"}, nil
	}
	inner, err := typeSchema(t.Elem(), above)
	if err != nil {
		return nil, err
	}
	if t.Kind() == reflect.Map {
		return map[string]any{"type": "object", "additionalProperties": inner}, nil
	}
	return map[string]any{"type": "array", "items": inner}, nil
}

func nestedStructSchema(t reflect.Type, above []reflect.Type) (map[string]any, error) {
	if slices.Contains(above, t) {
		return nil, fmt.Errorf("%s is recursive", t)
	}
	above = append(slices.Clip(above), t)
	schema := map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": false}
	for i := range t.NumField() {
		if err := addFieldSchema(schema, t.Field(i), above); err != nil {
			return nil, fmt.Errorf("field %s: %w", t.Field(i).Name, err)
		}
	}
	return schema, nil
}

// addFieldSchema adds a field to its struct's schema; an embedded struct adds its fields.
func addFieldSchema(schema map[string]any, f reflect.StructField, above []reflect.Type) error {
	name, optional, ok := jsonFieldName(f)
	if !ok {
		return nil
	}
	inner, err := typeSchema(f.Type, above)
	if err != nil {
		return err
	}
	props := asMap(schema["properties"])
	if name == "" {
		maps.Copy(props, asMap(inner["properties"]))
		schema["required"] = slices.Concat(asList(schema["required"]), asList(inner["required"]))
		return nil
	}
	if doc := f.Tag.Get("doc"); doc != "" {
		inner["description"] = doc
	}
	props[name] = inner
	if !optional {
		schema["required"] = append(asList(schema["required"]), name)
	}
	return nil
}

// jsonFieldName follows the rules of encoding/json; ok is false for a field
// that it omits, and the name is empty for an embedded struct.
func jsonFieldName(f reflect.StructField) (name string, optional, ok bool) {
	tag := f.Tag.Get("json")
	name, options, _ := strings.Cut(tag, ",")
	if f.Anonymous && name == "" && isStructType(f.Type) {
		return "", false, true
	}
	if !f.IsExported() || tag == "-" {
		return "", false, false
	}
	if name == "" {
		name = f.Name
	}
	optional = f.Type.Kind() == reflect.Pointer
	for option := range strings.SplitSeq(options, ",") {
		optional = optional || option == "omitempty" || option == "omitzero"
	}
	return name, optional, true
}

func isStructType(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]()
}

func asList(v any) []any { l, _ := v.([]any); return l }

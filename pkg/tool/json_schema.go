package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/jsonschema"
)

// A Schema is a compiled JSON Schema, for the input or the output of an agent.
// It is safe for concurrent use.
type Schema struct {
	source   map[string]any
	schema   map[string]any
	compiled *jsonschema.Schema
}

// NewSchema compiles a JSON Schema. References outside the schema are rejected.
func NewSchema(schema map[string]any) (*Schema, error) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{source: schema, schema: jsonschema.Normalize(asMap(v))}
	if s.compiled, err = jsonschema.Compile(s.schema); err != nil {
		return nil, err
	}
	return s, nil
}

// JSON returns the schema as written. The caller must not modify it.
func (s *Schema) JSON() map[string]any { return s.source }

// Parse decodes a single JSON value and checks it. The errors are those of
// [Schema.Check], or report invalid JSON.
func (s *Schema) Parse(ctx context.Context, text string) (any, error) {
	v, err := DecodeResult([]byte(trimFence(text)))
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	return s.Check(ctx, v)
}

// codeFence matches a Markdown fence around the whole text.
var codeFence = regexp.MustCompile("^\\s*```\\w*\\s*((?s:.*?))\\s*```\\s*$")

// trimFence removes a fence around the whole text, which models add when the service does
// not enforce the schema (adk-python utils/_schema_utils.py). JSON never begins with one.
func trimFence(text string) string {
	if m := codeFence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

// Check returns the value with defaults filled in, integers as int64, and
// without null for optional properties. v is not modified. The error lists the first
// violations, each with its path.
func (s *Schema) Check(ctx context.Context, v any) (any, error) {
	n := newNormalizer(ctx)
	full := n.normalizeValue(s.schema, v)
	if n.err != nil {
		return nil, n.err
	}
	err := s.compiled.Validate(ctx, full)
	var invalid *jsonschema.InvalidError
	switch {
	case err == nil:
		n.fillDefaults(s.schema, full)
		return full, n.err
	case errors.As(err, &invalid):
		lines := invalid.Lines("")
		slices.Sort(lines)
		return nil, errors.New(strings.Join(lines, "; "))
	}
	return nil, err
}

// decodeSchema returns the schema as plain JSON values, or nil if there is
// none.
func decodeSchema(decl *genai.FunctionDeclaration) (map[string]any, error) {
	var src any
	switch {
	case decl.ParametersJsonSchema != nil:
		src = decl.ParametersJsonSchema
	case decl.Parameters != nil:
		src = convertGenaiSchema(decl.Parameters)
	default:
		return nil, nil
	}
	raw, err := json.Marshal(src)
	if err != nil {
		return nil, err
	}
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	schema, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("the schema must be a JSON object")
	}
	return schema, nil
}

// decodeNumbers decodes JSON, and keeps the digits of numbers.
func decodeNumbers(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// convertGenaiSchema converts Gemini's schema type to a JSON Schema.
func convertGenaiSchema(s *genai.Schema) map[string]any {
	m := map[string]any{}
	if s.Type != "" && s.Type != genai.TypeUnspecified {
		m["type"] = genaiTypes(s)
	}
	if len(s.Enum) > 0 {
		m["enum"] = genaiEnum(s)
	}
	if s.Default != nil {
		m["default"] = s.Default
	}
	if s.Pattern != "" {
		m["pattern"] = s.Pattern
	}
	if len(s.Required) > 0 {
		m["required"] = s.Required
	}
	maps.Copy(m, genaiNested(s))
	maps.Copy(m, genaiBounds(s))
	return m
}

func genaiTypes(s *genai.Schema) any {
	name := strings.ToLower(string(s.Type))
	if s.Nullable != nil && *s.Nullable {
		return []string{name, "null"}
	}
	return name
}

func genaiEnum(s *genai.Schema) []any {
	values := make([]any, 0, len(s.Enum)+1)
	for _, v := range s.Enum {
		values = append(values, v)
	}
	if s.Nullable != nil && *s.Nullable {
		values = append(values, nil)
	}
	return values
}

func genaiNested(s *genai.Schema) map[string]any {
	m := map[string]any{}
	if s.Items != nil {
		m["items"] = convertGenaiSchema(s.Items)
	}
	if len(s.Properties) > 0 {
		props := make(map[string]any, len(s.Properties))
		for name, p := range s.Properties {
			props[name] = convertGenaiSchema(p)
		}
		m["properties"] = props
	}
	if len(s.AnyOf) > 0 {
		forms := make([]any, len(s.AnyOf))
		for i, f := range s.AnyOf {
			forms[i] = convertGenaiSchema(f)
		}
		m["anyOf"] = forms
	}
	return m
}

func genaiBounds(s *genai.Schema) map[string]any {
	m := map[string]any{}
	whole := map[string]*int64{
		"minItems": s.MinItems, "maxItems": s.MaxItems, "minLength": s.MinLength, "maxLength": s.MaxLength,
		"minProperties": s.MinProperties, "maxProperties": s.MaxProperties,
	}
	for key, n := range whole {
		if n != nil {
			m[key] = *n
		}
	}
	if s.Minimum != nil {
		m["minimum"] = *s.Minimum
	}
	if s.Maximum != nil {
		m["maximum"] = *s.Maximum
	}
	return m
}

package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/genai"
)

// DecodeParams returns a declaration's schema as plain JSON values, or nil if there is none.
// Numbers keep their digits.
func DecodeParams(decl *genai.FunctionDeclaration) (map[string]any, error) {
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
		return nil, fmt.Errorf("parameters of %s: %w", decl.Name, err)
	}
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", decl.Name, err)
	}
	schema, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("parameters of %s: the schema must be a JSON object", decl.Name)
	}
	return schema, nil
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

package tool

import (
	"maps"
	"strings"

	"google.golang.org/genai"
)

// fromGenai writes Gemini's own schema form as a JSON Schema.
func fromGenai(s *genai.Schema) map[string]any {
	m := map[string]any{}
	if s.Type != "" && s.Type != genai.TypeUnspecified {
		m["type"] = typeNames(s)
	}
	if len(s.Enum) > 0 {
		m["enum"] = enumOf(s)
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
	maps.Copy(m, nestedOf(s))
	maps.Copy(m, boundsOf(s))
	return m
}

func typeNames(s *genai.Schema) any {
	name := strings.ToLower(string(s.Type))
	if s.Nullable != nil && *s.Nullable {
		return []string{name, "null"}
	}
	return name
}

func enumOf(s *genai.Schema) []any {
	values := make([]any, 0, len(s.Enum)+1)
	for _, v := range s.Enum {
		values = append(values, v)
	}
	if s.Nullable != nil && *s.Nullable {
		values = append(values, nil)
	}
	return values
}

func nestedOf(s *genai.Schema) map[string]any {
	m := map[string]any{}
	if s.Items != nil {
		m["items"] = fromGenai(s.Items)
	}
	if len(s.Properties) > 0 {
		props := make(map[string]any, len(s.Properties))
		for name, p := range s.Properties {
			props[name] = fromGenai(p)
		}
		m["properties"] = props
	}
	if len(s.AnyOf) > 0 {
		forms := make([]any, len(s.AnyOf))
		for i, f := range s.AnyOf {
			forms[i] = fromGenai(f)
		}
		m["anyOf"] = forms
	}
	return m
}

func boundsOf(s *genai.Schema) map[string]any {
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

package provider

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// functionDeclarations returns the functions of a request. It rejects Gemini's built-in
// tools, which cannot be ignored without changing the result.
func functionDeclarations(name string, tools []*genai.Tool) ([]*genai.FunctionDeclaration, error) {
	var declared []*genai.FunctionDeclaration
	for _, t := range tools {
		if t == nil {
			continue
		}
		bare := *t
		bare.FunctionDeclarations = nil
		if names := jsonKeys(bare); len(names) > 0 {
			return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("%s has no %s: that is a tool of Gemini's", name, strings.Join(names, " and ")))
		}
		declared = append(declared, t.FunctionDeclarations...)
	}
	return declared, nil
}

func chatDeclaration(d *genai.FunctionDeclaration) map[string]any {
	f := map[string]any{"name": d.Name, "parameters": functionParameters(d)}
	if d.Description != "" {
		f["description"] = d.Description
	}
	return f
}

// functionParameters returns the JSON Schema of a function's parameters.
func functionParameters(d *genai.FunctionDeclaration) any {
	switch {
	case d.ParametersJsonSchema != nil:
		return d.ParametersJsonSchema
	case d.Parameters != nil:
		return plainSchema(d.Parameters)
	}
	return map[string]any{"type": "object", "properties": map[string]any{}}
}

// supportedSettings lists the Gemini API settings that are sent or have no effect here.
func supportedSettings() []string {
	return []string{
		"httpOptions", "systemInstruction", "temperature", "topP", "maxOutputTokens", "stopSequences", "presencePenalty", "frequencyPenalty",
		"seed", "responseMimeType", "responseSchema", "responseJsonSchema", "tools", "toolConfig", "automaticContinuation", "thinkingConfig",
	}
}

// unsupportedSettings returns the names of the settings that are not in
// [supportedSettings], sorted.
func unsupportedSettings(c *genai.GenerateContentConfig) []string {
	left := *c
	if len(left.ResponseModalities) == 1 && left.ResponseModalities[0] == "TEXT" {
		left.ResponseModalities = nil
	}
	return slices.DeleteFunc(jsonKeys(left), func(name string) bool { return slices.Contains(supportedSettings(), name) })
}

// jsonKeys returns the JSON names of the non-empty fields of a struct, sorted.
func jsonKeys(v any) []string {
	raw, err := json.Marshal(v)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(fields))
}

// responseSchema returns the JSON Schema of the response, or nil.
func responseSchema(c *genai.GenerateContentConfig) any {
	if c.ResponseJsonSchema == nil && c.ResponseSchema != nil {
		return plainSchema(c.ResponseSchema)
	}
	return c.ResponseJsonSchema
}

// plainSchema converts Gemini's schema format to JSON Schema: its types are upper case,
// and its counts are strings.
func plainSchema(s *genai.Schema) any {
	v := copyJSON(s)
	if v == nil {
		return map[string]any{}
	}
	return lowerTypes(v)
}

func lowerTypes(v any) any {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			v[i] = lowerTypes(item)
		}
	case map[string]any:
		for key, inner := range v {
			text, isText := inner.(string)
			switch {
			case key == "type" && isText:
				v[key] = strings.ToLower(text)
			case isText && (strings.HasPrefix(key, "min") || strings.HasPrefix(key, "max")):
				v[key] = json.Number(text)
			case key != "enum" && key != "example" && key != "default":
				v[key] = lowerTypes(inner)
			}
		}
	}
	return v
}

// copyJSON returns a deep copy of a JSON value. It returns nil for other values.
func copyJSON(v any) any {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	own, err := session.DecodeValue(raw)
	if err != nil {
		return nil
	}
	return own
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

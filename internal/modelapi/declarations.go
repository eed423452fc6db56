package modelapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelcall"
	"agenthost/pkg/session"
)

// FunctionDeclarations returns a request's functions. It rejects Gemini's built-in tools: ignoring
// them would change the result.
func FunctionDeclarations(name string, tools []*genai.Tool) ([]*genai.FunctionDeclaration, error) {
	var declared []*genai.FunctionDeclaration
	for _, t := range tools {
		if t == nil {
			continue
		}
		bare := *t
		bare.FunctionDeclarations = nil
		if names := JsonKeys(bare); len(names) > 0 {
			return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("%s has no %s: that is a Gemini tool", name, strings.Join(names, " and ")))
		}
		declared = append(declared, t.FunctionDeclarations...)
	}
	return declared, nil
}

// ChatDeclaration returns a function with its JSON Schema, as chat completions declare it.
func ChatDeclaration(d *genai.FunctionDeclaration) map[string]any {
	f := map[string]any{"name": d.Name, "parameters": FunctionParameters(d)}
	if d.Description != "" {
		f["description"] = d.Description
	}
	return f
}

// FunctionParameters returns a function's parameters as JSON Schema.
func FunctionParameters(d *genai.FunctionDeclaration) any {
	switch {
	case d.ParametersJsonSchema != nil:
		return d.ParametersJsonSchema
	case d.Parameters != nil:
		return PlainSchema(d.Parameters)
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

// UnsupportedSettings lists the settings that are not in [supportedSettings], sorted.
func UnsupportedSettings(c *genai.GenerateContentConfig) []string {
	left := *c
	if len(left.ResponseModalities) == 1 && left.ResponseModalities[0] == "TEXT" {
		left.ResponseModalities = nil
	}
	return slices.DeleteFunc(JsonKeys(left), func(name string) bool { return slices.Contains(supportedSettings(), name) })
}

// JsonKeys returns the JSON names for a struct's non-empty fields, sorted.
func JsonKeys(v any) []string {
	raw, err := json.Marshal(v)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(fields))
}

// ResponseSchema returns the response's JSON Schema, or nil.
func ResponseSchema(c *genai.GenerateContentConfig) any {
	if c.ResponseJsonSchema == nil && c.ResponseSchema != nil {
		return PlainSchema(c.ResponseSchema)
	}
	return c.ResponseJsonSchema
}

// PlainSchema converts Gemini's schema format to JSON Schema: its types are upper case,
// and its counts are strings.
func PlainSchema(s *genai.Schema) any {
	v := CopyJSON(s)
	if v == nil {
		return map[string]any{}
	}
	return LowerTypes(v)
}

// LowerTypes converts a decoded Gemini schema to JSON Schema in place, and returns it.
func LowerTypes(v any) any {
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			v[i] = LowerTypes(item)
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
				v[key] = LowerTypes(inner)
			}
		}
	}
	return v
}

// CopyJSON returns a deep copy of a JSON value. It returns nil for other values.
func CopyJSON(v any) any {
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

// SortedKeys returns a mapping's keys, sorted.
func SortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

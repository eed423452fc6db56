package openai

import (
	"cmp"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
)

// addFormat requests JSON, or JSON that matches a schema, in the service's form.
func (t *chatTarget) addFormat(body map[string]any, c *genai.GenerateContentConfig) {
	schema := modelapi.ResponseSchema(c)
	switch {
	case schema == nil && c.ResponseMIMEType == "application/json", schema != nil && t.format == formatObject:
		body["response_format"] = map[string]any{"type": "json_object"}
	case schema == nil:
	case t.format == formatLiteLLM:
		body["response_format"] = map[string]any{"type": "json_object", "response_schema": schema}
	default:
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": namedSchema(schema)}
	}
}

// schemaInstruction returns the instruction for services that cannot be given a schema,
// or "".
func (t *chatTarget) schemaInstruction(c *genai.GenerateContentConfig) string {
	if t.format != formatObject || c == nil {
		return ""
	}
	schema := modelapi.ResponseSchema(c)
	if schema == nil {
		return ""
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return ""
	}
	return "Answer with a JSON object that matches this JSON Schema:\n" + string(raw)
}

// namedSchema returns a schema with its name, and strict if its form permits that.
func namedSchema(schema any) map[string]any {
	named := map[string]any{"name": schemaName(schema), "schema": schema}
	if strict, ok := modelapi.CopyJSON(schema).(map[string]any); ok && strict["type"] == "object" && tightenSchema(strict) {
		named["schema"], named["strict"] = strict, true
	}
	return named
}

// badNameCharacters matches what a schema name may not contain.
var badNameCharacters = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// schemaName returns a schema's title as a name, or response.
func schemaName(schema any) string {
	fields, _ := schema.(map[string]any)
	title, _ := fields["title"].(string)
	name := strings.Trim(badNameCharacters.ReplaceAllString(title, "_"), "_")
	return cmp.Or(name[:min(len(name), 64)], "response")
}

// tightenSchema changes a schema to the form that strict output requires: objects have no other
// properties, all properties are required, and nothing is next to a $ref (adk-python
// models/lite_llm.py). It returns false for a schema that has no such form, because it permits any
// property or combines schemas.
func tightenSchema(v map[string]any) bool {
	if ref, ok := v["$ref"]; ok {
		clear(v)
		v["$ref"] = ref
		return true
	}
	for _, key := range []string{"oneOf", "allOf", "not", "if", "patternProperties", "dependentRequired", "dependentSchemas"} {
		if _, ok := v[key]; ok {
			return false
		}
	}
	if isObjectSchema(v) && !closeObject(v) {
		return false
	}
	return tightenInner(v)
}

func isObjectSchema(v map[string]any) bool {
	_, ok := v["properties"]
	return ok || v["type"] == "object"
}

// closeObject requires all properties and permits no others.
func closeObject(v map[string]any) bool {
	properties, ok := v["properties"].(map[string]any)
	if more, set := v["additionalProperties"]; !ok || set && more != false {
		return false
	}
	required := slices.AppendSeq([]string{}, maps.Keys(properties)) // [] if there are none
	slices.Sort(required)
	v["additionalProperties"], v["required"] = false, required
	return true
}

// tightenInner tightens the schemas inside a schema.
func tightenInner(v map[string]any) bool {
	for _, key := range []string{"properties", "$defs", "definitions"} {
		named, _ := v[key].(map[string]any)
		for _, inner := range named {
			if s, ok := inner.(map[string]any); !ok || !tightenSchema(s) {
				return false
			}
		}
	}
	if items, ok := v["items"]; ok {
		if s, ok := items.(map[string]any); !ok || !tightenSchema(s) {
			return false
		}
	}
	options, _ := v["anyOf"].([]any)
	for _, option := range options {
		if s, ok := option.(map[string]any); !ok || !tightenSchema(s) {
			return false
		}
	}
	return true
}

package conformance

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agenthost/internal/fence"
	"agenthost/internal/number"
	"agenthost/pkg/runtime"
)

// freeMaps are keys whose values have their own keys, which are compared as written.
var freeMaps = []string{"args", "response", "properties", "labels", "default", "enum", "example"}

// normalizeRequest returns the compared parts of a request, from both spellings and without
// the system instruction (adk-python _conformance_test_google_llm.py).
func normalizeRequest(raw map[string]any) (request map[string]any, instruction string) {
	request = map[string]any{}
	for _, key := range []string{"model", "contents", "config"} {
		if raw[key] != nil {
			request[key] = camelizeKeys(key, raw[key])
		}
	}
	contents, _ := request["contents"].([]any)
	for _, item := range contents {
		content, _ := item.(map[string]any)
		normalizeParts(content)
		normalizeTexts(content)
	}
	config, _ := request["config"].(map[string]any)
	instruction = readInstruction(config["systemInstruction"])
	for _, key := range []string{"systemInstruction", "httpOptions", "labels"} {
		delete(config, key)
	}
	normalizeTools(config)
	for _, key := range []string{"responseSchema", "responseJsonSchema"} {
		if schema, ok := config[key].(map[string]any); ok {
			delete(config, key)
			config["responseSchema"] = normalizeSchema(schema, schema)
		}
	}
	maps.DeleteFunc(config, func(_ string, v any) bool { return isEmpty(v) })
	return asJSON(request), instruction
}

// normalizeTexts brings the values in a content's texts into one notation (adk-go
// replay_plugin.go canonicalizeRequestContents).
func normalizeTexts(content map[string]any) {
	parts, _ := content["parts"].([]any)
	for _, item := range parts {
		part, _ := item.(map[string]any)
		if text, ok := part["text"].(string); ok {
			part["text"] = normalizeLiterals(text)
		}
	}
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// camelizeKeys converts struct keys to camelCase and drops nulls.
func camelizeKeys(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		free := slices.Contains(freeMaps, key)
		own := map[string]any{}
		for k, value := range v {
			switch {
			case !free && value == nil:
			case free && key == "properties":
				own[k] = camelizeKeys("", value)
			case free:
				own[k] = value
			default:
				name := camelCase(k)
				own[name] = camelizeKeys(name, value)
			}
		}
		return own
	case []any:
		own := make([]any, len(v))
		for i, item := range v {
			own[i] = camelizeKeys("", item)
		}
		return own
	}
	return v
}

func camelCase(key string) string {
	words := strings.Split(key, "_")
	for i, word := range words[1:] {
		if word != "" {
			words[i+1] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// readInstruction returns the text in a string, a content or a list of parts.
func readInstruction(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		if text, ok := v["text"].(string); ok {
			return text
		}
		return readInstruction(v["parts"])
	case []any:
		var texts []string
		for _, item := range v {
			texts = append(texts, readInstruction(item))
		}
		return strings.Join(texts, "\n\n")
	}
	return ""
}

// normalizeTools brings function declarations into one form.
func normalizeTools(config map[string]any) {
	tools, _ := config["tools"].([]any)
	for _, item := range tools {
		entry, _ := item.(map[string]any)
		declarations, _ := entry["functionDeclarations"].([]any)
		for _, item := range declarations {
			if d, ok := item.(map[string]any); ok {
				normalizeDeclaration(d)
			}
		}
	}
}

func normalizeDeclaration(d map[string]any) {
	if text, ok := d["description"].(string); ok {
		// Recordings have docstring line breaks and indentation. The fence in an MCP server's description
		// does not count.
		d["description"] = strings.Join(strings.Fields(fence.Remove(text)), " ")
	}
	if d["name"] == "transfer_to_agent" {
		d["description"] = "" // the wording of the host
		dropReason(d)
	}
	if isEmpty(d["description"]) || d["description"] == "" {
		delete(d, "description")
	}
	delete(d, "response")
	delete(d, "responseJsonSchema")
	for _, key := range []string{"parameters", "parametersJsonSchema"} {
		schema, ok := d[key].(map[string]any)
		if delete(d, key); ok {
			schema = normalizeSchema(schema, schema)
		}
		if ok && !takesNoArgs(schema) {
			d["schema"] = schema
		}
	}
}

// takesNoArgs reports whether the parameters are an object without properties, which is the same as
// no parameters.
func takesNoArgs(schema map[string]any) bool {
	properties, isMap := schema["properties"].(map[string]any)
	return schema["type"] == "object" && isMap && len(properties) == 0
}

// dropReason removes the transfer parameter that ADK has since 2.9.
func dropReason(d map[string]any) {
	for _, key := range []string{"parameters", "parametersJsonSchema"} {
		schema, _ := d[key].(map[string]any)
		properties, _ := schema["properties"].(map[string]any)
		delete(properties, "transfer_reason")
	}
}

// maxSchemaDepth ends resolution when schemas refer to themselves.
const maxSchemaDepth = 50

// uncomparedKeywords are schema keywords that do not count: texts, and those missing in Gemini
// schemas, in which ADK records most parameters.
var uncomparedKeywords = []string{
	"title", "default", "description", "$defs", "defs", "definitions", "$schema", "$id", "$anchor", "$comment",
	"additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames", "dependentRequired",
	"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "const", "examples", "deprecated", "readOnly", "writeOnly", "not",
}

// comparedFormats are the formats that ADK keeps in a Gemini schema (adk-python
// tools/_gemini_schema_util.py).
var comparedFormats = []any{"int32", "int64", "date-time", "enum"}

// normalizeSchema brings a schema into one form: without [uncomparedKeywords], with references
// replaced and null as nullable.
func normalizeSchema(schema, root map[string]any) map[string]any {
	return normalizeSchemaAt(schema, root, 0)
}

func normalizeSchemaAt(schema, root map[string]any, depth int) map[string]any {
	if depth > maxSchemaDepth {
		return schema
	}
	if ref, ok := schema["$ref"].(string); ok {
		if target := findDefinition(root, ref); target != nil {
			return normalizeSchemaAt(target, root, depth+1)
		}
	}
	own := map[string]any{}
	for key, v := range schema {
		if slices.Contains(uncomparedKeywords, key) || key == "format" && !slices.Contains(comparedFormats, v) {
			continue
		}
		switch key {
		case "type":
			v = normalizeType(own, v)
		case "properties":
			properties := map[string]any{}
			all, _ := v.(map[string]any)
			for name, item := range all {
				if sub, ok := item.(map[string]any); ok {
					item = normalizeSchemaAt(sub, root, depth+1)
				}
				properties[name] = item
			}
			v = properties
		case "enum", "required":
		default:
			v = normalizeSubschemas(v, root, depth+1)
		}
		own[key] = v
	}
	return unifyNull(own)
}

// normalizeType returns a type in lower case. A list with a type and null is the type, and
// sets nullable.
func normalizeType(schema map[string]any, v any) any {
	switch v := v.(type) {
	case string:
		return strings.ToLower(v)
	case []any:
		types := slices.DeleteFunc(slices.Clone(v), func(item any) bool { return item == "null" || item == "NULL" })
		if len(types) == 1 && len(v) == 2 {
			schema["nullable"] = true
			return normalizeType(schema, types[0])
		}
	}
	return v
}

func normalizeSubschemas(v any, root map[string]any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		return normalizeSchemaAt(v, root, depth)
	case []any:
		own := make([]any, len(v))
		for i, item := range v {
			own[i] = normalizeSubschemas(item, root, depth)
		}
		return own
	}
	return v
}

func findDefinition(root map[string]any, ref string) map[string]any {
	var at any = root
	for _, key := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		m, _ := at.(map[string]any)
		at = m[key]
	}
	target, _ := at.(map[string]any)
	return target
}

// unifyNull replaces anyOf with a schema and null by the schema with nullable.
func unifyNull(schema map[string]any) map[string]any {
	options, _ := schema["anyOf"].([]any)
	if len(options) != 2 {
		return schema
	}
	for i, item := range options {
		null, _ := item.(map[string]any)
		other, _ := options[1-i].(map[string]any)
		if null["type"] == "null" && other != nil {
			own := maps.Clone(schema)
			delete(own, "anyOf")
			maps.Copy(own, other)
			own["nullable"] = true
			return own
		}
	}
	return schema
}

// compareRequests returns the difference between a recorded and an actual request; empty if
// they are equal. The host words its own notes in the instruction differently than ADK, so
// only the author's instructions are compared.
func compareRequests(recorded map[string]any, call *runtime.ModelCall) (string, error) {
	actual, err := describeRequest(call)
	if err != nil {
		return "", err
	}
	want, wantText := normalizeRequest(recorded)
	got, gotText := normalizeRequest(actual)
	if !matchesInstruction(wantText, gotText, call.Notes) {
		want["systemInstruction"], got["systemInstruction"] = wantText, gotText
	}
	if number.Equal(want, got) {
		return "", nil
	}
	return diffValues("recorded request", "actual request", want, got), nil
}

// describeRequest returns a call's request with ADK's keys.
func describeRequest(call *runtime.ModelCall) (map[string]any, error) {
	name := call.Request.Model
	if name == "" {
		name = call.Model.Name()
	}
	b, err := json.Marshal(map[string]any{"model": name, "contents": call.Request.Contents, "config": call.Request.Config})
	if err != nil {
		return nil, err
	}
	return number.DecodeObject(b)
}

// matchesInstruction reports whether the parts of an instruction that the host has not
// written are in the recorded one, in order. Without notes, both must be equal.
func matchesInstruction(recorded, actual string, notes []string) bool {
	const gap = "\x00"
	for _, note := range notes {
		actual = strings.Replace(actual, note, gap, 1)
	}
	recorded = normalizeInstruction(recorded)
	if len(notes) == 0 {
		return recorded == normalizeInstruction(actual)
	}
	for _, part := range strings.Split(actual, gap) {
		_, rest, found := strings.Cut(recorded, normalizeInstruction(part))
		if !found {
			return false
		}
		recorded = rest
	}
	return true
}

// normalizeInstruction returns an instruction part with its values in one notation.
func normalizeInstruction(text string) string {
	return normalizeConstants(normalizeLiterals(strings.TrimSpace(text)))
}

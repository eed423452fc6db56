package legalrequest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
)

// maxSchemaBranches limits the schemas that are merged into one root.
const maxSchemaBranches = 200

// maxRootText limits the conditions' text in a description.
const maxRootText = 2000

// rootConditions are the keywords that services reject at the root of parameters.
var rootConditions = []string{"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "enum", "const"}

// plainParameters returns a function's parameters as an object with properties at its root, or nil
// if they are one already. Services reject other roots. All branches' properties are merged; the
// original conditions are in the description. Arguments are still validated with the original
// schema.
func plainParameters(d *genai.FunctionDeclaration) map[string]any {
	schema := d.ParametersJsonSchema
	if schema == nil && d.Parameters != nil {
		if s := d.Parameters; s.Type == genai.TypeObject && len(s.Properties) > 0 && len(s.AnyOf) == 0 && len(s.Enum) == 0 {
			return nil
		}
		schema = modelapi.PlainSchema(d.Parameters)
	}
	if schema == nil || isPlainRoot(schema) {
		return nil
	}
	root, _ := modelapi.CopyJSON(schema).(map[string]any)
	if kind, _ := root["type"].(string); kind != "" && kind == strings.ToUpper(kind) {
		modelapi.LowerTypes(root) // Gemini's schema form
	}
	if isPlainRoot(root) {
		return root
	}
	return plainRoot(root)
}

// isPlainRoot reports whether a schema has the type object, properties that include the required
// ones, and no such conditions.
func isPlainRoot(schema any) bool {
	root, ok := schema.(map[string]any)
	kind, _ := root["type"].(string)
	properties, hasProperties := root["properties"].(map[string]any)
	if !ok || kind != "object" || !hasProperties {
		return false
	}
	required, _ := root["required"].([]any)
	for _, name := range required {
		if text, ok := name.(string); !ok || properties[text] == nil {
			return false
		}
	}
	return !slices.ContainsFunc(rootConditions, func(name string) bool { return root[name] != nil })
}

// plainRoot returns a schema as an object with properties. It modifies schema. schema may be nil.
func plainRoot(schema map[string]any) map[string]any {
	conditions := map[string]any{}
	for _, name := range rootConditions {
		if schema[name] != nil {
			conditions[name] = schema[name]
		}
	}
	m := &rootMerger{root: schema, merged: map[string][]any{}}
	merged := m.mergeSchema(schema)
	plain := maps.Clone(schema)
	if plain == nil {
		plain = map[string]any{}
	}
	for name := range conditions {
		delete(plain, name)
	}
	plain["type"], plain["properties"] = "object", merged.properties
	delete(plain, "required")
	if required := merged.knownRequired(); len(required) > 0 {
		plain["required"] = required
	}
	if schema["additionalProperties"] == false && len(conditions) > 0 {
		delete(plain, "additionalProperties") // the branches' properties were not counted
	}
	if text := describeConditions(conditions); text != "" {
		own, _ := plain["description"].(string)
		plain["description"] = strings.TrimPrefix(own+"\n"+text, "\n")
	}
	return plain
}

// describeConditions returns a root's conditions as text, or "" if they are too long. Models cannot
// read a reference.
func describeConditions(conditions map[string]any) string {
	shown := maps.Clone(conditions)
	delete(shown, "$ref")
	delete(shown, "$dynamicRef")
	raw, err := json.Marshal(shown)
	if err != nil || len(shown) == 0 || len(raw) > maxRootText {
		return ""
	}
	return "The arguments must also match this JSON Schema: " + string(raw)
}

// describeParameters returns a function's schema in which only the description has parameters with
// illegal names: models can pass them nevertheless. plain is the schema if it had to be changed
// before; nil is returned if no change was necessary.
func (r *NameRule) describeParameters(d *genai.FunctionDeclaration, plain map[string]any) map[string]any {
	var schema any = plain
	if plain == nil {
		schema = modelapi.FunctionParameters(d)
	}
	root, _ := schema.(map[string]any)
	properties, _ := root["properties"].(map[string]any)
	isLegal := func(name string) bool { return r.Parameters == nil || r.Parameters.MatchString(name) }
	names := slices.DeleteFunc(modelapi.SortedKeys(properties), isLegal)
	if len(names) == 0 {
		return plain
	}
	own, described := maps.Clone(root), map[string]any{}
	legal := maps.Clone(properties)
	for _, name := range names {
		described[name] = properties[name]
		delete(legal, name)
	}
	own["properties"] = legal
	delete(own, "additionalProperties")
	if required, ok := root["required"].([]any); ok {
		own["required"] = slices.DeleteFunc(slices.Clone(required), func(name any) bool { return slices.Contains(names, name.(string)) })
	}
	text := "Other arguments are: " + textOfJSON(described)
	if len(text) > maxRootText {
		text = "Other arguments are: " + strings.Join(names, ", ")
	}
	description, _ := root["description"].(string)
	own["description"] = strings.TrimPrefix(description+"\n"+text, "\n")
	return own
}

// A rootMerger merges a schema's branches.
type rootMerger struct {
	root     map[string]any
	branches int
	// merged has the required names from merged references.
	merged map[string][]any
}

// An objectShape is what a schema states about an object.
type objectShape struct {
	properties map[string]any
	required   []any
}

// mergeSchema returns the properties in a schema and in its branches, and those that all
// alternatives require.
func (m *rootMerger) mergeSchema(schema map[string]any) objectShape {
	shape := objectShape{properties: map[string]any{}}
	if m.branches++; m.branches > maxSchemaBranches {
		return shape
	}
	if own, ok := schema["properties"].(map[string]any); ok {
		maps.Copy(shape.properties, own)
	}
	shape.required, _ = schema["required"].([]any)
	if ref, ok := schema["$ref"].(string); ok {
		shape.addAll(m.mergeRef(ref))
	}
	for _, branch := range objectsOf(schema["allOf"]) {
		shape.addAll(m.mergeSchema(branch))
	}
	for _, name := range []string{"anyOf", "oneOf"} {
		branches := objectsOf(schema[name])
		var common []any
		for i, branch := range branches {
			alternative := m.mergeSchema(branch)
			shape.addProperties(alternative.properties, "anyOf")
			if i == 0 {
				common = slices.Clone(alternative.required)
			}
			common = slices.DeleteFunc(common, func(name any) bool { return !containsName(alternative.required, name) })
		}
		shape.addRequired(common)
	}
	return shape
}

// mergeRef is mergeSchema for a reference's schema. The properties of a second reference to it are
// merged already.
func (m *rootMerger) mergeRef(ref string) objectShape {
	if required, merged := m.merged[ref]; merged {
		return objectShape{required: required}
	}
	m.merged[ref] = nil
	shape := m.mergeSchema(m.findRef(ref))
	m.merged[ref] = shape.required
	return shape
}

// findRef returns a reference's schema within the document, or nil.
func (m *rootMerger) findRef(ref string) map[string]any {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := m.root
	for _, step := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			continue
		}
		next, ok := at[strings.NewReplacer("~1", "/", "~0", "~").Replace(step)].(map[string]any)
		if !ok {
			return nil
		}
		at = next
	}
	return at
}

func objectsOf(list any) []map[string]any {
	var objects []map[string]any
	items, _ := list.([]any)
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

func (s *objectShape) addAll(other objectShape) {
	s.addProperties(other.properties, "allOf")
	s.addRequired(other.required)
}

// addProperties adds properties. Two schemas for one property become branches of the keyword.
func (s *objectShape) addProperties(properties map[string]any, keyword string) {
	for name, schema := range properties {
		own, ok := s.properties[name]
		if !ok || own == true {
			s.properties[name] = schema
			continue
		}
		if schema == true {
			continue
		}
		branches := []any{own}
		if merged, _ := own.(map[string]any); len(merged) == 1 {
			if list, ok := merged[keyword].([]any); ok {
				branches = list
			}
		}
		if !slices.ContainsFunc(branches, func(branch any) bool { return equalJSON(branch, schema) }) {
			s.properties[name] = map[string]any{keyword: append(slices.Clip(branches), schema)}
		}
	}
}

func equalJSON(a, b any) bool {
	rawA, errA := json.Marshal(a)
	rawB, errB := json.Marshal(b)
	return errA == nil && errB == nil && string(rawA) == string(rawB)
}

func (s *objectShape) addRequired(names []any) {
	for _, name := range names {
		if !containsName(s.required, name) {
			s.required = append(slices.Clip(s.required), name)
		}
	}
}

// knownRequired returns the required names that are properties; Gemini rejects others.
func (s *objectShape) knownRequired() []any {
	return slices.DeleteFunc(slices.Clone(s.required), func(name any) bool {
		text, ok := name.(string)
		return !ok || s.properties[text] == nil
	})
}

// containsName reports whether a list has a name; items with other types do not count.
func containsName(list []any, name any) bool {
	text, ok := name.(string)
	return ok && slices.ContainsFunc(list, func(item any) bool { return item == text })
}

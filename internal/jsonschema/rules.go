package jsonschema

import (
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Tool schemas come from servers and documents of all ages. The rules in this file keep validation
// from forbidding more than JSON Schema 2020-12 does, so that a call which the service would accept
// is made:
//
//   - keywords from older drafts and OpenAPI 3.0 mean what they mean there;
//   - an unknown $schema is read as 2020-12;
//   - format is an annotation in every draft;
//   - an ECMAScript regular expression that Go cannot compile forbids nothing;
//   - several branches may satisfy oneOf: models and services mean "one of these
//     forms", and branches that do not exclude each other would forbid every call.

// Normalize returns a schema in which 2020-12 keywords replace those of older drafts, if it does
// not declare its draft. The schema is not modified.
func Normalize(schema map[string]any) map[string]any {
	n := schemaNormalizer{hasDraft: isKnownDraft(schema["$schema"])}
	return n.normalizeMembers(schema)
}

// isKnownDraft reports whether the library has the draft that $schema names.
func isKnownDraft(v any) bool {
	address, _ := v.(string)
	_, name, _ := strings.Cut(strings.TrimSuffix(address, "#"), "://")
	name, ok := strings.CutPrefix(name, "json-schema.org/")
	return ok && slices.Contains([]string{"draft-04/schema", "draft-06/schema", "draft-07/schema", "draft/2019-09/schema", "draft/2020-12/schema"}, name)
}

// A schemaNormalizer normalizes one document's schemas.
type schemaNormalizer struct {
	hasDraft bool
	// negated is set below not and if, where a weaker schema would forbid more.
	negated bool
}

// normalizeSubschema normalizes a schema, a boolean one as it is, or a schema list.
func (n schemaNormalizer) normalizeSubschema(v any) any {
	switch v := v.(type) {
	case map[string]any:
		members := n.normalizeMembers(v)
		if v["nullable"] == true && !n.negated {
			return acceptNull(members)
		}
		return members
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = n.normalizeSubschema(item)
		}
		return list
	}
	return v
}

func (n schemaNormalizer) normalizeMembers(schema map[string]any) map[string]any {
	out := make(map[string]any, len(schema))
	for key, v := range schema {
		switch key {
		case "$schema":
			if isKnownDraft(v) {
				out[key] = v
			}
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			if members, ok := v.(map[string]any); ok {
				named := make(map[string]any, len(members))
				for name, inner := range members {
					named[name] = n.normalizeSubschema(inner)
				}
				v = named
			}
			out[key] = v
		case "default", "const", "enum", "examples", "example":
			out[key] = v // values, and no schemas
		case "not", "if":
			out[key] = schemaNormalizer{n.hasDraft, true}.normalizeSubschema(v)
		default:
			out[key] = n.normalizeSubschema(v)
		}
	}
	if !n.hasDraft {
		convertOldKeywords(out)
	}
	return out
}

// convertOldKeywords replaces the keywords in drafts 3 to 7 that have another form in 2020-12.
func convertOldKeywords(schema map[string]any) {
	for exclusive, bound := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		is, ok := schema[exclusive].(bool)
		if !ok {
			continue
		}
		delete(schema, exclusive)
		if limit, ok := schema[bound]; ok && is {
			schema[exclusive] = limit
			delete(schema, bound)
		}
	}
	if list, ok := schema["items"].([]any); ok {
		delete(schema, "items")
		if len(list) > 0 {
			schema["prefixItems"] = list
		}
		if more, ok := schema["additionalItems"]; ok {
			schema["items"] = more
		}
	}
	if _, ok := schema["required"].(bool); ok { // draft 3, in the property
		delete(schema, "required")
	}
}

// acceptNull returns a schema with OpenAPI's nullable: true as a JSON Schema.
func acceptNull(schema map[string]any) map[string]any {
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, nil) {
		schema["enum"] = append(slices.Clip(enum), nil)
	}
	switch types := schema["type"].(type) {
	case string:
		schema["type"] = []any{types, "null"}
		return schema
	case []any:
		if !slices.Contains(types, any("null")) {
			schema["type"] = append(slices.Clip(types), "null")
		}
		return schema
	}
	for _, key := range []string{"$ref", "allOf", "anyOf", "oneOf"} {
		if _, ok := schema[key]; ok {
			return map[string]any{"anyOf": []any{maps.Clone(schema), map[string]any{"type": "null"}}}
		}
	}
	return schema
}

// An unknownPattern is a regular expression that Go cannot compile.
type unknownPattern string

// MatchString implements [jsonschema.Regexp].
func (unknownPattern) MatchString(string) bool { return true }

// String implements [jsonschema.Regexp].
func (p unknownPattern) String() string { return string(p) }

// relaxSchema removes from a compiled schema what it may not forbid. Below a keyword that
// turns "valid" into "forbidden", oneOf stays as it is: there a weaker schema would forbid
// more.
func relaxSchema(root *jsonschema.Schema) {
	all := findSchemas(root)
	hasUnknown := slices.ContainsFunc(slices.Collect(maps.Keys(all)), hasUnknownPattern)
	var negations []*jsonschema.Schema
	for s := range all {
		s.Format = nil
		if hasUnknown {
			dropUnknownPatterns(s)
		}
		negations = append(negations, s.Not, s.If, boundedContains(s))
	}
	negated := findSchemas(negations...)
	for s := range all {
		if len(s.OneOf) > 0 && !negated[s] {
			acceptOverlap(s)
		}
	}
}

// boundedContains returns contains' schema if an array may have too many such elements.
func boundedContains(s *jsonschema.Schema) *jsonschema.Schema {
	if s.MaxContains == nil {
		return nil
	}
	return s.Contains
}

// acceptOverlap lets several oneOf branches be satisfied.
func acceptOverlap(s *jsonschema.Schema) {
	if len(s.AnyOf) == 0 {
		s.AnyOf = s.OneOf
	} else {
		s.AllOf = append(slices.Clip(s.AllOf), &jsonschema.Schema{DraftVersion: s.DraftVersion, Location: s.Location, AnyOf: s.OneOf})
	}
	s.OneOf = nil
}

func isUnknownPattern(p jsonschema.Regexp) bool {
	_, unknown := p.(unknownPattern)
	return unknown
}

func hasUnknownPattern(s *jsonschema.Schema) bool {
	if isUnknownPattern(s.Pattern) {
		return true
	}
	for p := range s.PatternProperties {
		if isUnknownPattern(p) {
			return true
		}
	}
	return false
}

// dropUnknownPatterns removes unknown patterns, and what they could make forbid a value: the
// keywords that turn "valid" into "forbidden", and those for properties that no pattern names.
func dropUnknownPatterns(s *jsonschema.Schema) {
	s.Not, s.If, s.Then, s.Else, s.MaxContains, s.UnevaluatedProperties = nil, nil, nil, nil, nil, nil
	if isUnknownPattern(s.Pattern) {
		s.Pattern = nil
	}
	for p := range s.PatternProperties {
		if isUnknownPattern(p) {
			delete(s.PatternProperties, p)
			s.AdditionalProperties = nil
		}
	}
}

// findSchemas returns the schemas and all schemas below them; some may be nil.
func findSchemas(queue ...*jsonschema.Schema) map[*jsonschema.Schema]bool {
	found := map[*jsonschema.Schema]bool{}
	for len(queue) > 0 {
		s := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if s != nil && !found[s] {
			found[s] = true
			queue = append(queue, listSubschemas(s)...)
		}
	}
	return found
}

// listSubschemas lists the schemas that a schema names; some may be nil.
func listSubschemas(s *jsonschema.Schema) []*jsonschema.Schema {
	list := []*jsonschema.Schema{
		s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else, s.PropertyNames, s.UnevaluatedProperties,
		s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema,
	}
	if s.DynamicRef != nil {
		list = append(list, s.DynamicRef.Ref)
	}
	list = slices.Concat(list, s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems)
	for _, named := range []map[string]*jsonschema.Schema{s.Properties, s.DependentSchemas} {
		list = slices.AppendSeq(list, maps.Values(named))
	}
	list = slices.AppendSeq(list, maps.Values(s.PatternProperties))
	for _, v := range s.Dependencies {
		list = appendSchemas(list, v)
	}
	for _, v := range []any{s.AdditionalProperties, s.Items, s.AdditionalItems} {
		list = appendSchemas(list, v)
	}
	return list
}

// appendSchemas appends a keyword's value that may also be something else.
func appendSchemas(list []*jsonschema.Schema, v any) []*jsonschema.Schema {
	switch v := v.(type) {
	case *jsonschema.Schema:
		return append(list, v)
	case []*jsonschema.Schema:
		return append(list, v...)
	}
	return list
}

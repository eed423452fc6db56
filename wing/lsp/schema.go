package lsp

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// schema is a document kind's JSON Schema.
type schema struct{ root, defs map[string]any }

// schemasAt returns the schemas that may apply at a path.
func (s *schema) schemasAt(keys []string) []map[string]any {
	if s == nil {
		return nil
	}
	found := s.expandRefs(s.root)
	for _, key := range keys {
		var next []map[string]any
		for _, one := range found {
			for _, inner := range childSchemas(one, key) {
				next = append(next, s.expandRefs(inner)...)
			}
		}
		found = next
	}
	return found
}

// childSchemas returns the schemas for a key's value, or for a list's items.
func childSchemas(one map[string]any, key string) []map[string]any {
	if key == listItem {
		items, _ := one["items"].(map[string]any)
		return wrapSchema(items)
	}
	properties, _ := one["properties"].(map[string]any)
	if p, ok := properties[key].(map[string]any); ok {
		return wrapSchema(p)
	}
	additional, _ := one["additionalProperties"].(map[string]any)
	return wrapSchema(additional)
}

func wrapSchema(one map[string]any) []map[string]any {
	if one == nil {
		return nil
	}
	return []map[string]any{one}
}

// expandRefs resolves $ref and flattens anyOf.
func (s *schema) expandRefs(one map[string]any) []map[string]any {
	if ref, ok := one["$ref"].(string); ok {
		target, _ := s.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		if target == nil {
			return nil
		}
		return s.expandRefs(target)
	}
	if options, ok := one["anyOf"].([]any); ok {
		var all []map[string]any
		for _, a := range options {
			if m, ok := a.(map[string]any); ok {
				all = append(all, s.expandRefs(m)...)
			}
		}
		return all
	}
	return []map[string]any{one}
}

// filterBySiblings keeps the schemas that match the cursor's siblings: if agent_class or
// provider is set, only the schema for that class or provider.
func filterBySiblings(found []map[string]any, siblings map[string]string) []map[string]any {
	return slices.DeleteFunc(slices.Clone(found), func(one map[string]any) bool {
		properties, _ := one["properties"].(map[string]any)
		for _, key := range []string{"agent_class", "provider"} {
			p, _ := properties[key].(map[string]any)
			allowed, _ := p["enum"].([]any)
			value, set := siblings[key]
			if _, code := p["pattern"]; code && !set {
				return true
			}
			if allowed == nil {
				continue
			}
			required, _ := one["required"].([]any)
			if set && !slices.Contains(allowed, any(value)) || !set && key == "agent_class" && slices.Contains(required, any(key)) {
				return true
			}
		}
		return false
	})
}

// field is a possible key at the cursor.
type field struct {
	name   string
	schema map[string]any
}

// sortedFields returns the keys in all schemas, sorted by name.
func sortedFields(found []map[string]any) []field {
	all := map[string]map[string]any{}
	for _, one := range found {
		properties, _ := one["properties"].(map[string]any)
		for name, p := range properties {
			if m, ok := p.(map[string]any); ok && (all[name] == nil || stringProperty(all[name], "description") == "") {
				all[name] = m
			}
		}
	}
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fields = append(fields, field{name, all[name]})
	}
	return fields
}

// usualFields are the fields that most documents set, in the order in which people write them.
var usualFields = []string{
	"provider", "name", "description", "model", "instruction", "tools", "sub_agents", "agent_class", "output_key", "output_schema",
	"when", "state_schema", "until", "max_iterations", "routes", "edges", "include_contents", "generate_content_config",
	"use", "http", "expr", "mcp", "openapi", "agent", "command", "config_path", "url", "method", "params", "query", "headers", "auth", "body", "result", "confirm", "timeout",
	"models", "agents", "schemas", "connections", "defaults", "run_config", "plugins", "include",
	"user", "expect", "then", "calls", "cases", "metrics", "text", "return", "fail",
}

// orderFields returns the keys in all schemas: the required ones, the usual ones, the others by name,
// and at last callbacks and deprecated ones.
func orderFields(found []map[string]any) []field {
	required := map[string]bool{}
	for _, one := range found {
		list, _ := one["required"].([]any)
		for _, name := range list {
			if text, ok := name.(string); ok {
				required[text] = true
			}
		}
	}
	rank := func(f field) int {
		usual := slices.Index(usualFields, f.name)
		switch {
		case f.schema["deprecated"] == true:
			return 1003
		case strings.HasSuffix(f.name, "_callbacks"):
			return 1002
		case required[f.name] && usual < 0:
			return 99
		case required[f.name]:
			return usual
		case usual < 0:
			return 1001
		}
		return 100 + usual
	}
	fields := sortedFields(found)
	slices.SortStableFunc(fields, func(a, b field) int { return cmp.Compare(rank(a), rank(b)) })
	return fields
}

func stringProperty(one map[string]any, key string) string {
	text, _ := one[key].(string)
	return text
}

// enumValues returns the values that the schemas enumerate, sorted.
func enumValues(found []map[string]any) []string {
	var values []string
	for _, one := range found {
		list, _ := one["enum"].([]any)
		for _, v := range list {
			if text, ok := v.(string); ok {
				values = append(values, text)
			}
		}
		if one["type"] == "boolean" {
			values = append(values, "true", "false")
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

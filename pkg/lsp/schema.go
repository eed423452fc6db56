package lsp

import (
	"maps"
	"slices"
	"strings"
)

// schema is the JSON Schema of a document, as it is walked for a place.
type schema struct{ root, defs map[string]any }

// schema returns the schema of a language, or nil.
func (s *Server) schema(language string) *schema {
	if known, ok := s.schemas[language]; ok {
		return known
	}
	var made *schema
	if root, err := s.loader.Schema(language); err == nil {
		defs, _ := root["$defs"].(map[string]any)
		made = &schema{root, defs}
	}
	s.schemas[language] = made
	return made
}

// at lists what may stand where the keys lead to.
func (s *schema) at(keys []string) []map[string]any {
	if s == nil {
		return nil
	}
	found := s.expand(s.root)
	for _, key := range keys {
		var next []map[string]any
		for _, one := range found {
			for _, inner := range step(one, key) {
				next = append(next, s.expand(inner)...)
			}
		}
		found = next
	}
	return found
}

// step is what stands under a key, or in a list.
func step(one map[string]any, key string) []map[string]any {
	if key == item {
		items, _ := one["items"].(map[string]any)
		return present(items)
	}
	properties, _ := one["properties"].(map[string]any)
	if p, ok := properties[key].(map[string]any); ok {
		return present(p)
	}
	more, _ := one["additionalProperties"].(map[string]any)
	return present(more)
}

func present(one map[string]any) []map[string]any {
	if one == nil {
		return nil
	}
	return []map[string]any{one}
}

// expand follows references and alternatives.
func (s *schema) expand(one map[string]any) []map[string]any {
	if ref, ok := one["$ref"].(string); ok {
		target, _ := s.defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
		if target == nil {
			return nil
		}
		return s.expand(target)
	}
	if ways, ok := one["anyOf"].([]any); ok {
		var all []map[string]any
		for _, a := range ways {
			if m, ok := a.(map[string]any); ok {
				all = append(all, s.expand(m)...)
			}
		}
		return all
	}
	return []map[string]any{one}
}

// fits keeps those mappings that the keys beside the place allow: of the
// classes of agents and the providers of models the one that is named.
func fits(found []map[string]any, beside map[string]string) []map[string]any {
	return slices.DeleteFunc(slices.Clone(found), func(one map[string]any) bool {
		properties, _ := one["properties"].(map[string]any)
		for _, key := range []string{"agent_class", "provider"} {
			p, _ := properties[key].(map[string]any)
			allowed, _ := p["enum"].([]any)
			value, written := beside[key]
			if _, code := p["pattern"]; code && !written {
				return true
			}
			if allowed == nil {
				continue
			}
			required, _ := one["required"].([]any)
			if written && !slices.Contains(allowed, any(value)) || !written && key == "agent_class" && slices.Contains(required, any(key)) {
				return true
			}
		}
		return false
	})
}

// field is a key that may stand at a place.
type field struct {
	name   string
	schema map[string]any
}

// fieldsOf lists the keys of mappings, by name.
func fieldsOf(found []map[string]any) []field {
	all := map[string]map[string]any{}
	for _, one := range found {
		properties, _ := one["properties"].(map[string]any)
		for name, p := range properties {
			if m, ok := p.(map[string]any); ok && (all[name] == nil || textOf(all[name], "description") == "") {
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

func textOf(one map[string]any, key string) string {
	text, _ := one[key].(string)
	return text
}

// valuesOf lists the values that the alternatives name.
func valuesOf(found []map[string]any) []string {
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

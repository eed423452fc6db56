package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// A StateSchema types the keys of a session's state that have no prefix, and
// gives them defaults. Keys with a colon are nobody's business here, as in
// adk-python. Many goroutines may use it. A nil StateSchema types nothing.
type StateSchema struct {
	keys map[string]*Schema
}

// NewStateSchema reads the JSON Schema of the state, an object whose properties
// are the keys. The error says what is wrong with it.
func NewStateSchema(schema map[string]any) (*StateSchema, error) {
	s := &StateSchema{keys: map[string]*Schema{}}
	// Each key's schema has the definitions of all.
	all := partsOf(schema["properties"]) + len(mapOf(schema["properties"]))*(partsOf(schema["$defs"])+partsOf(schema["definitions"]))
	if all > maxSchema {
		return nil, fmt.Errorf("the keys and their definitions have %d parts; at most %d are read", all, maxSchema)
	}
	for key, prop := range mapOf(schema["properties"]) {
		if strings.Contains(key, ":") {
			return nil, fmt.Errorf("the key %s has a colon: only keys without a prefix are typed", key)
		}
		typed, err := NewSchema(withDefinitions(mapOf(prop), schema))
		if err != nil {
			return nil, fmt.Errorf("the key %s: %w", key, err)
		}
		s.keys[key] = typed
	}
	return s, nil
}

// withDefinitions is a part of a schema with the definitions of the whole.
func withDefinitions(part, whole map[string]any) map[string]any {
	with := maps.Clone(part)
	if with == nil {
		with = map[string]any{}
	}
	for _, name := range []string{"$defs", "definitions"} {
		if defs, ok := whole[name]; ok {
			with[name] = defs
		}
	}
	return with
}

// Keys are the typed keys, sorted.
func (s *StateSchema) Keys() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.keys))
}

// Values are all that a key may have, where the schema lists them.
func (s *StateSchema) Values(key string) []any {
	if s == nil || s.keys[key] == nil {
		return nil
	}
	values, _ := s.keys[key].schema["enum"].([]any)
	return values
}

// Has says whether a key may be used: it is typed, has a colon, or nothing is
// typed at all.
func (s *StateSchema) Has(key string) bool {
	return s == nil || strings.Contains(key, ":") || s.keys[key] != nil
}

// Default is what a key is read as while nothing is written there.
func (s *StateSchema) Default(key string) (any, bool) {
	if s == nil || s.keys[key] == nil {
		return nil, false
	}
	v, ok := s.keys[key].schema["default"]
	if !ok {
		return nil, false
	}
	return normal(s.keys[key].schema, v), true
}

// AddDefaults puts the defaults of the keys that all lacks into it.
func (s *StateSchema) AddDefaults(all map[string]any) {
	if s == nil {
		return
	}
	for key := range s.keys {
		if v, ok := s.Default(key); ok && all[key] == nil {
			all[key] = v
		}
	}
}

// Check returns the value in the form that is to be written, or says why it
// cannot be. Nil, which removes a key, always can.
func (s *StateSchema) Check(key string, v any) (any, error) {
	if !s.Has(key) {
		return nil, fmt.Errorf("the state key %s is not in the state_schema: its keys are %s", key, orNone(s.Keys()))
	}
	if s == nil || v == nil || s.keys[key] == nil {
		return v, nil
	}
	checked, err := s.keys[key].Check(v)
	if err != nil {
		return nil, fmt.Errorf("the state key %s does not take this value: %w", key, err)
	}
	return checked, nil
}

// CheckDelta checks all writes of an event, in place.
func (s *StateSchema) CheckDelta(delta map[string]any) error {
	if s == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		v, err := s.Check(key, delta[key])
		if err != nil {
			return err
		}
		delta[key] = v
	}
	return nil
}

// Samples are values of the keys' types, for the environment of an expression.
func (s *StateSchema) Samples() map[string]any {
	samples := make(map[string]any, len(s.keys))
	for key, typed := range s.keys {
		samples[key] = sampleOf(typed.schema)
	}
	return samples
}

func (s *StateSchema) hinted(d spec.Diagnostic, key string) spec.Diagnostic {
	if near := spec.Suggest(key, s.Keys()); near != "" {
		return d.WithHint("did you mean %q?", near)
	}
	return d.WithHint("the keys are %s; keys with a prefix, such as user:%s, need not be there", orNone(s.Keys()), key)
}

// takesText says whether a key may hold any text, as far as its type tells.
func (s *StateSchema) takesText(key string) bool {
	if s == nil || s.keys[key] == nil {
		return true
	}
	schema := s.keys[key].schema
	_, typed := schema["type"]
	return !typed || wants(schema, "string")
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
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

// CheckKey is the problem of a key that a document writes and the schema does
// not have; at is its place.
func (s *StateSchema) CheckKey(at *spec.Node, key string) spec.Diagnostics {
	if s.Has(key) {
		return nil
	}
	return spec.Diagnostics{s.hinted(at.Errorf("state-schema", "the state key %s is not in the state_schema", key), key)}
}

// CheckRefs warns of placeholders whose keys the schema does not have.
func (s *StateSchema) CheckRefs(text spec.Text, refs []template.Ref) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, ref := range refs {
		if !ref.Artifact && !s.Has(ref.Name) {
			ds = append(ds, s.hinted(text.Warnf(ref.Offset, "state-schema", "the state key %s is not in the state_schema", ref.Name), ref.Name))
		}
	}
	return ds
}

func (s *StateSchema) hinted(d spec.Diagnostic, key string) spec.Diagnostic {
	if near := spec.Suggest(key, s.Keys()); near != "" {
		return d.WithHint("did you mean %q?", near)
	}
	return d.WithHint("the keys are %s; keys with a prefix, such as user:%s, need not be there", orNone(s.Keys()), key)
}

// TakesText says whether a key may hold any text, as far as its type tells.
func (s *StateSchema) TakesText(key string) bool {
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

// CheckState checks what the tool writes, and its expressions with the types of
// the state.
func (c *exprConfig) CheckState(n *spec.Node, s *StateSchema) spec.Diagnostics {
	var ds spec.Diagnostics
	if set := n.Get("set"); set != nil {
		for _, e := range set.Entries {
			ds = append(ds, s.CheckKey(e.Key, e.Key.Value)...)
		}
	}
	d, err := c.Tool.declare()
	if err != nil {
		return ds // told already
	}
	env := envOf(d.params)
	env["state"] = s.Samples()
	read := compiler{params: d.params}
	read.expr(c.Value, env)
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		read.expr(c.Set[key], env)
	}
	return append(ds, read.ds...)
}

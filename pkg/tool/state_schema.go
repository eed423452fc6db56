package tool

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// A StateSchema types keys of a session's state, gives them defaults, and says
// who writes them. When it types a key without a prefix, it has all of those that
// the app uses; keys with a prefix need not be there, as in adk-python. Many
// goroutines may use it. A nil StateSchema types nothing.
type StateSchema struct {
	keys    map[string]*Schema
	writers map[string]session.Writer
	// closed says that every key without a prefix is typed.
	closed bool
}

// NewStateSchema reads the JSON Schema of the state, an object whose properties
// are the keys; a property may say in `writable` who writes its key. The error
// says what is wrong with it.
func NewStateSchema(schema map[string]any) (*StateSchema, error) {
	s := &StateSchema{keys: map[string]*Schema{}, writers: map[string]session.Writer{}}
	// Each key's schema has the definitions of all.
	all := countSchemaParts(schema["properties"]) + len(asMap(schema["properties"]))*(countSchemaParts(schema["$defs"])+countSchemaParts(schema["definitions"]))
	if all > maxSchemaParts {
		return nil, fmt.Errorf("the keys and their definitions have %d parts; at most %d are read", all, maxSchemaParts)
	}
	for key, prop := range asMap(schema["properties"]) {
		if err := s.addKey(key, copyDefinitions(asMap(prop), schema)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// addKey reads the schema of one key.
func (s *StateSchema) addKey(key string, prop map[string]any) error {
	scope, _ := session.ScopeOf(key)
	if scope == session.ScopeSession && strings.Contains(key, ":") {
		return fmt.Errorf("the key %s has a prefix that is not user:, app: or temp:", key)
	}
	if name, ok := prop["writable"]; ok {
		w, known := session.ParseWriter(fmt.Sprint(name))
		if !known {
			return fmt.Errorf("the key %s: writable must be one of %s, got %v", key, strings.Join(session.WriterNames(), ", "), name)
		}
		s.writers[key] = w
		delete(prop, "writable")
		if len(prop) == 0 {
			s.keys[key] = nil // who writes it is all that is known
			return nil
		}
	}
	s.closed = s.closed || scope == session.ScopeSession
	typed, err := NewSchema(prop)
	if err != nil {
		return fmt.Errorf("the key %s: %w", key, err)
	}
	s.keys[key] = typed
	return nil
}

// Writable is the least trusted writer of a key, and whether the schema says so.
// By default clients write every key, as in ADK.
func (s *StateSchema) Writable(key string) (by session.Writer, declared bool) {
	if s == nil {
		return session.WriterClient, false
	}
	by, declared = s.writers[key]
	return by, declared
}

// CheckWriter returns an error for the first key of a delta that the writer may
// not write.
func (s *StateSchema) CheckWriter(w session.Writer, delta map[string]any) error {
	if s == nil || len(s.writers) == 0 {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(delta)) {
		if by, _ := s.Writable(key); w < by {
			return &WriterError{Key: key, By: by}
		}
	}
	return nil
}

// A WriterError says that a key of the state was written by a party that may
// not write it.
type WriterError struct {
	Key string
	// By is the least trusted party that may.
	By session.Writer
}

// Error names the key and the rule.
func (e *WriterError) Error() string {
	by := "agents and administrators"
	if e.By == session.WriterAdmin {
		by = "administrators"
	}
	return fmt.Sprintf("permission denied: the state key %q is written by %s only (state_schema: writable: %s)", e.Key, by, e.By)
}

// Unwrap returns ErrInvalid: the same write can never be accepted.
func (e *WriterError) Unwrap() error { return session.ErrInvalid }

// copyDefinitions is a part of a schema with the definitions of the whole.
func copyDefinitions(part, whole map[string]any) map[string]any {
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

// Closed says whether the schema has every key without a prefix that the app
// may use. One that only says who writes its keys leaves all others free.
func (s *StateSchema) Closed() bool { return s != nil && s.closed }

// Declares says whether the schema has an entry for a key.
func (s *StateSchema) Declares(key string) bool {
	if s == nil {
		return false
	}
	_, ok := s.keys[key]
	return ok
}

// Has says whether a key may be used: it is declared, has a colon, or the schema
// is not closed.
func (s *StateSchema) Has(key string) bool {
	return !s.Closed() || strings.Contains(key, ":") || s.Declares(key)
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
	return normalizeValue(s.keys[key].schema, v), true
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

// Check returns the value in the form in which an agent writes it, or says why
// it cannot be written. Nil, which removes a key, has every type.
func (s *StateSchema) Check(key string, v any) (any, error) {
	if by, _ := s.Writable(key); by > session.WriterAgent {
		return nil, &WriterError{Key: key, By: by}
	}
	if !s.Has(key) {
		return nil, fmt.Errorf("the state key %s is not in the state_schema: its keys are %s", key, joinOrNone(s.Keys()))
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
		samples[key] = nil
		if typed != nil {
			samples[key] = sampleValue(typed.schema)
		}
	}
	return samples
}

func (s *StateSchema) withKeyHint(d spec.Diagnostic, key string) spec.Diagnostic {
	if near := spec.Suggest(key, s.Keys()); near != "" {
		return d.WithHint("did you mean %q?", near)
	}
	return d.WithHint("the keys are %s; keys with a prefix, such as user:%s, need not be there", joinOrNone(s.Keys()), key)
}

// acceptsText says whether a key may hold any text, as far as its type tells.
func (s *StateSchema) acceptsText(key string) bool {
	if s == nil || s.keys[key] == nil {
		return true
	}
	schema := s.keys[key].schema
	_, typed := schema["type"]
	return !typed || acceptsType(schema, "string")
}

func joinOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

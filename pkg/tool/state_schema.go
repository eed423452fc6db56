package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A StateSchema declares types, defaults and permitted writers for keys in a session's state. If it
// types any key without a prefix, it must declare all such keys that the app uses; keys with a
// prefix need no declaration, as in adk-python. A StateSchema is safe for concurrent use. A nil
// StateSchema declares nothing.
type StateSchema struct {
	keys    map[string]*Schema
	writers map[string]session.Writer
	// closed means that every key without a prefix must be declared.
	closed bool
}

// NewStateSchema returns the schema for keys, with the least trusted writers for those that
// restrict them. A key that declares only its writer has a nil schema.
func NewStateSchema(keys map[string]*Schema, writers map[string]session.Writer) *StateSchema {
	s := &StateSchema{keys: keys, writers: writers}
	for key, typed := range keys {
		scope, _ := session.ScopeOf(key)
		s.closed = s.closed || typed != nil && scope == session.ScopeSession
	}
	return s
}

// Writable returns a key's least trusted writer, and whether the schema declares it. By default
// clients may write every key, as in ADK.
func (s *StateSchema) Writable(key string) (by session.Writer, declared bool) {
	if s == nil {
		return session.WriterClient, false
	}
	by, declared = s.writers[key]
	return by, declared
}

// CheckWriter returns an error for the first key in a delta that w may not write.
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

// A WriterError reports a write to a state key by a party without permission.
type WriterError struct {
	Key string
	// By is the least trusted party with permission.
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

// Unwrap returns ErrInvalid: retrying the same write cannot succeed.
func (e *WriterError) Unwrap() error { return session.ErrInvalid }

// Keys returns the declared keys, sorted.
func (s *StateSchema) Keys() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.keys))
}

// Values returns all values that a key may have, if the schema lists them.
func (s *StateSchema) Values(key string) []any {
	if s == nil || s.keys[key] == nil {
		return nil
	}
	values, _ := s.keys[key].schema["enum"].([]any)
	return values
}

// Closed reports whether the schema must declare every key without a prefix. A
// schema that only declares writers is not closed.
func (s *StateSchema) Closed() bool { return s != nil && s.closed }

// Declares reports whether the schema has an entry for a key.
func (s *StateSchema) Declares(key string) bool {
	if s == nil {
		return false
	}
	_, ok := s.keys[key]
	return ok
}

// Has reports whether a key may be used: it is declared, contains a colon, or
// the schema is not closed.
func (s *StateSchema) Has(key string) bool {
	return !s.Closed() || strings.Contains(key, ":") || s.Declares(key)
}

// Default returns a key's value before it is written.
func (s *StateSchema) Default(key string) (any, bool) {
	if s == nil || s.keys[key] == nil {
		return nil, false
	}
	v, ok := s.keys[key].schema["default"]
	if !ok {
		return nil, false
	}
	return newNormalizer(context.Background()).normalizeValue(s.keys[key].schema, v), true
}

// AddDefaults adds the defaults for the keys that all does not have.
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

// Check returns the normalized value that an agent writes, or an error. Nil, which deletes a key,
// is valid for every type. A write has no context: [Schema.Check]'s budgets end the check.
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
	checked, err := s.keys[key].Check(context.Background(), v)
	if err != nil {
		return nil, fmt.Errorf("invalid value for state key %s: %w", key, err)
	}
	return checked, nil
}

// CheckDelta checks and normalizes all writes in an event, in place.
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

// Samples returns values with the keys' types, for an expression's environment.
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
		return d.WithNearName(key, near)
	}
	return d.WithHint("declared keys: %s; keys with a prefix, such as user:%s, need no declaration", joinOrNone(s.Keys()), key)
}

// acceptsText reports whether a key may hold any string, according to its type.
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

// CheckUse checks how a part uses the state against the schema: a written key must be declared, and
// expressions are type-checked; other keys that are read, and values that a key cannot have, are
// warnings. A nil schema reports nothing.
func (s *StateSchema) CheckUse(u StateUse) spec.Diagnostics {
	if s == nil {
		return nil
	}
	var ds spec.Diagnostics
	for _, w := range u.Writes {
		ds = append(ds, s.checkWrite(w)...)
	}
	for _, t := range u.Texts {
		for _, ref := range t.Refs {
			ds = append(ds, s.checkRead(t.Text, ref.Name, ref.Offset)...)
		}
	}
	for _, e := range u.Exprs {
		ds = append(ds, s.checkExpr(e)...)
	}
	return ds
}

func (s *StateSchema) checkWrite(w StateWrite) spec.Diagnostics {
	key := w.Key.Value
	if by, _ := s.Writable(key); by > session.WriterAgent {
		return spec.Diagnostics{w.Key.Errorf(0, "state-schema", "the state key %s is written by administrators only (writable: %s)", key, by).
			WithHint("write another key, or declare it writable: agent")}
	}
	if !s.Has(key) {
		return spec.Diagnostics{s.withKeyHint(w.Key.Errorf(0, "state-schema", "the state key %s is not in the state_schema", key), key)}
	}
	if w.Text && !s.acceptsText(key) {
		return spec.Diagnostics{w.Key.Errorf(0, "state-schema", "%s writes a string, but the type of %s in the state_schema is not string", w.Verb, key).
			WithHint("set output_schema to store a structured value")}
	}
	return nil
}

func (s *StateSchema) checkRead(at spec.Text, key string, offset int) spec.Diagnostics {
	if s.Has(key) {
		return nil
	}
	return spec.Diagnostics{s.withKeyHint(at.Warnf(offset, "state-schema", "the state key %s is not in the state_schema", key), key)}
}

// checkExpr compiles the expression again, with the state's types.
func (s *StateSchema) checkExpr(e StateExpr) spec.Diagnostics {
	var ds spec.Diagnostics
	if e.Expr.Pos.Line == 0 {
		return nil
	}
	e.Env["state"] = s.Samples()
	compile := template.Compile
	if e.Bool {
		compile = template.CompileBool
	}
	if _, err := compile(e.Expr.Value, e.Env); err != nil {
		return spec.Diagnostics{NewTemplateDiagnostic(e.Expr.Text, "expression", err)}
	}
	uses := template.UsesOf(e.Expr.Value, "state")
	for _, m := range uses.Members {
		ds = append(ds, s.checkRead(e.Expr.Text, m.Name, m.Offset)...)
	}
	for _, c := range uses.Comparisons {
		ds = append(ds, s.checkComparison(e.Expr, c)...)
	}
	return ds
}

// checkComparison warns about a comparison with a value that the schema does
// not list for the key.
func (s *StateSchema) checkComparison(e spec.Expr, c template.Comparison) spec.Diagnostics {
	values := s.Values(c.Member)
	known := make([]string, len(values))
	for i, v := range values {
		known[i] = template.String(v)
	}
	value := template.String(c.Value)
	if len(known) == 0 || slices.Contains(known, value) {
		return nil
	}
	d := e.Warnf(c.Offset, "state-value", "the state key %s can never be %q: its values are %s", c.Member, value, strings.Join(known, ", "))
	if near := spec.Suggest(value, known); near != "" {
		d = d.WithNearName(value, near)
	}
	return spec.Diagnostics{d}
}

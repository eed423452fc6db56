package tool

import (
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// CheckUse checks a use of the state against the schema: a written key must be
// declared, and expressions are type-checked; other keys that are read, and
// values that a key cannot have, are warnings. A nil schema reports nothing.
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

// checkExpr compiles the expression again, with the types of the state.
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
		return spec.Diagnostics{templateError(e.Expr.Text, "expression", err)}
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
		d = d.WithHint("did you mean %q?", near)
	}
	return spec.Diagnostics{d}
}

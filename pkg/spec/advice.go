package spec

import (
	"maps"
	"reflect"
	"slices"
)

// Advice is a table with what people who know other programs write instead of a config struct's
// fields. Its hints must lead to a document that means the same.
type Advice struct {
	// Fields has other programs' field names. The value is the name of the field that means the
	// same, which also becomes a fix, or a sentence.
	Fields map[string]string
	// Shapes has hints for fields whose value has the wrong type, as it is written: "model: {}" for
	// a mapping, "agents: []" for a list, and "command: text" for a scalar.
	Shapes map[string]string
}

// An Adviser is a config struct with advice. Its inlined structs may have their own.
type Adviser interface{ Advice() Advice }

// collectAdvice merges the advice of a struct and its inlined structs; the outer one wins.
func collectAdvice(t reflect.Type) Advice {
	all := Advice{map[string]string{}, map[string]string{}}
	for i := range t.NumField() {
		if sf := t.Field(i); sf.IsExported() && sf.Tag.Get("yaml") == ",inline" {
			all.addAdvice(collectAdvice(sf.Type))
		}
	}
	if a, ok := reflect.New(t).Interface().(Adviser); ok {
		all.addAdvice(a.Advice())
	}
	return all
}

func (a Advice) addAdvice(b Advice) {
	maps.Copy(a.Fields, b.Fields)
	maps.Copy(a.Shapes, b.Shapes)
}

// hintField returns the hint for an unknown field, or "".
func (a Advice) hintField(key string, names []string) string {
	if advice := a.Fields[key]; !slices.Contains(names, advice) {
		return advice
	}
	return "use " + a.Fields[key]
}

// findField returns the field that an unknown key means, as another program's name or as a
// misspelling, or "".
func (a Advice) findField(key string, names []string) string {
	advice, ok := a.Fields[key]
	switch {
	case slices.Contains(names, advice):
		return advice
	case ok:
		return ""
	}
	return suggestUnambiguous(key, names)
}

// hintShape adds a field's hint to the problem about its value's type.
func (a Advice) hintShape(ds Diagnostics, field string, n *Node) {
	shape := map[NodeKind]string{Mapping: "{}", Sequence: "[]", Scalar: "text"}[n.Kind]
	hint := a.Shapes[field+": "+shape]
	for i, d := range ds {
		if hint != "" && d.Rule == "type" && d.Pos == n.Pos {
			ds[i].Hint = hint
		}
	}
}

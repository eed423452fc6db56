package spec

import (
	"encoding"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A SchemaProvider is a type with its own JSON Schema. SchemaSpec is called on the zero value. The
// schema may refer to "#/$defs/" for definitions from [SchemaSet.Define].
type SchemaProvider interface {
	SchemaSpec() map[string]any
}

// Schema returns the JSON Schema (draft 7) for documents that [Decode] decodes into a struct type.
// It is meant for editors, so it also accepts strings with numbers and booleans, and ${…} for them.
// Nested structs are under $defs.
func Schema(t reflect.Type) map[string]any {
	var s SchemaSet
	return s.Document(s.Object(t))
}

// A SchemaSet builds schemas that share definitions. The zero value is ready to use.
type SchemaSet struct {
	defs  map[string]any
	names map[reflect.Type]string
}

// Define adds a definition, replacing one with the same name, and returns a reference to
// it.
func (s *SchemaSet) Define(name string, schema map[string]any) map[string]any {
	if s.defs == nil {
		s.defs = map[string]any{}
	}
	s.defs[name] = schema
	return s.Ref(name)
}

// Ref returns a reference to a definition, which may be added later.
func (s *SchemaSet) Ref(name string) map[string]any {
	return map[string]any{"$ref": "#/$defs/" + name}
}

// Document returns root as a complete schema with all definitions.
func (s *SchemaSet) Document(root map[string]any) map[string]any {
	doc := maps.Clone(root)
	doc["$schema"] = "http://json-schema.org/draft-07/schema#"
	if len(s.defs) > 0 {
		doc["$defs"] = maps.Clone(s.defs)
	}
	return doc
}

// Object returns a struct type's schema inline; nested structs are references.
func (s *SchemaSet) Object(t reflect.Type) map[string]any {
	properties := map[string]any{}
	var required []any
	var aliases []string
	for _, f := range Fields(t) {
		properties[f.Name] = s.fieldSchema(f)
		if f.Required {
			required = append(required, f.Name)
		}
		if f.Alias != "" {
			aliases = append(aliases, f.Alias)
		}
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		object["required"] = required
	}
	if len(aliases) > 0 {
		object["patternProperties"] = map[string]any{"^(" + strings.Join(aliases, "|") + ")$": true}
	}
	return object
}

// fieldSchema returns a field's schema: its type with the attributes in its tags.
func (s *SchemaSet) fieldSchema(f Field) map[string]any {
	schema := maps.Clone(s.Of(f.Type))
	if f.Doc != "" {
		schema["description"] = f.Doc
	}
	if len(f.Enum) > 0 {
		addEnum(schema, f.Enum)
	}
	if f.Default != "" {
		schema["default"] = defaultNode(&Node{}, f).Any()
	}
	if f.Deprecated != "" {
		schema["deprecated"] = true
		schema["deprecationMessage"] = f.Deprecated
	}
	if f.Secret {
		schema["writeOnly"] = true
	}
	return schema
}

// addEnum restricts a value, or the elements in a list or mapping, to an enum.
func addEnum(schema map[string]any, enum []string) {
	for _, inner := range []string{"items", "additionalProperties"} {
		if of, ok := schema[inner].(map[string]any); ok {
			of = maps.Clone(of)
			addEnum(of, enum)
			schema[inner] = of
			return
		}
	}
	values := make([]any, len(enum))
	for i, e := range enum {
		values[i] = e
	}
	schema["enum"] = values
}

// Of returns a type's schema. It defines a struct under its name and returns a reference, unless
// the struct is a [SchemaProvider].
func (s *SchemaSet) Of(t reflect.Type) map[string]any {
	if t.Kind() == reflect.Pointer && t != reflect.TypeFor[*Node]() {
		return s.Of(t.Elem())
	}
	switch zero := reflect.New(t).Interface().(type) {
	case SchemaProvider:
		return zero.SchemaSpec()
	case **Node, *any, Decoder:
		return map[string]any{}
	case *time.Duration:
		schema := (*Duration)(nil).SchemaSpec()
		delete(schema, "maximum")
		schema["pattern"] = `^\d+$|` + schema["pattern"].(string)
		return schema
	case *http.Header:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": []any{"string", "array"}}}
	case *[]byte:
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	case encoding.TextUnmarshaler:
		return map[string]any{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.defineStruct(t)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.Of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.Of(t.Elem())}
	}
	return scalarSchema(t.Kind())
}

func scalarSchema(k reflect.Kind) map[string]any {
	switch k {
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return orString("boolean", `^([Tt]rue|[Ff]alse|[Yy]es|[Nn]o|[Oo]n|[Oo]ff|[TtFfYyNn01])$|^\$\{`)
	case reflect.Float32, reflect.Float64:
		return orString("number", `^[+-]?[0-9]*\.?[0-9]*([eE][+-]?[0-9]+)?$|^\$\{`)
	}
	return orString("integer", `^[+-]?[0-9]+(\.0*)?$|^\$\{`)
}

func orString(kind, pattern string) map[string]any {
	return map[string]any{"type": []any{kind, "string"}, "pattern": pattern}
}

// defineStruct defines a struct once; a recursive struct refers to itself.
func (s *SchemaSet) defineStruct(t reflect.Type) map[string]any {
	if t.Name() == "" {
		return s.Object(t)
	}
	name, ok := s.names[t]
	if !ok {
		if s.names == nil {
			s.names = map[reflect.Type]string{}
		}
		name = s.uniqueName(t)
		s.names[t] = name
		s.Define(name, nil)
		s.Define(name, s.Object(t))
	}
	return s.Ref(name)
}

// uniqueName returns package.Type, with a number if that is taken.
func (s *SchemaSet) uniqueName(t reflect.Type) string {
	plain := regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(t.String(), "_")
	name := plain
	for i := 2; ; i++ {
		if _, taken := s.defs[name]; !taken {
			return name
		}
		name = fmt.Sprintf("%s%d", plain, i)
	}
}

// A ValueSchema describes a value of any type, in the same form as a [ShortSchema] field: a mapping
// is an object, [string] a list of strings, and a word a type.
type ValueSchema struct {
	schema map[string]any
}

// JSON returns the value's JSON Schema, or nil if there is none. Callers must not modify it.
func (s ValueSchema) JSON() map[string]any { return s.schema }

// DecodeSpec decodes all forms.
func (s *ValueSchema) DecodeSpec(n *Node) Diagnostics {
	r := &shortSchemaParser{}
	schema, optional := r.parseField(n)
	if optional {
		r.report(n.Errorf("type", "the value as a whole cannot be optional"))
	}
	if _, ok := schema["properties"]; ok && schema["type"] == nil {
		schema["type"] = "object"
	}
	s.schema = schema
	return r.ds
}

// SchemaSpec describes the forms.
func (s *ValueSchema) SchemaSpec() map[string]any {
	return map[string]any{
		"title": "schema", "type": []any{"object", "array", "string"},
		"examples": []any{map[string]any{"score": "integer", "tags": []any{"string"}}},
	}
}

// A StateSchema is a [ShortSchema] for the keys in a session's state. A key may also declare who
// may write it:
//
//	note:  string?
//	limit: {type: number, default: 50, writable: agent}
//	plan:  {writable: admin}                             # of any type
type StateSchema struct {
	ShortSchema
	// writers holds the writable values by key.
	writers map[string]*Node
}

// Writers returns the `writable` values by key.
func (s StateSchema) Writers() map[string]*Node { return s.writers }

// DecodeSpec decodes both [ShortSchema] forms.
func (s *StateSchema) DecodeSpec(n *Node) Diagnostics {
	s.writers = map[string]*Node{}
	if n.Kind == Mapping {
		n = s.withoutWriters(n)
	}
	return s.ShortSchema.DecodeSpec(n)
}

// withoutWriters records and removes `writable` from the keys.
func (s *StateSchema) withoutWriters(n *Node) *Node {
	if !isJSONSchema(n) {
		return s.stripWriters(n, anyTypeNode)
	}
	with := *n
	with.Entries = slices.Clone(n.Entries)
	for i, e := range with.Entries {
		if e.Key.Value == "properties" && e.Value.Kind == Mapping {
			with.Entries[i].Value = s.stripWriters(e.Value, func(at *Node) *Node { return at })
		}
	}
	return &with
}

// stripWriters records and removes `writable` in a mapping of keys. empty replaces fields that have
// no other entry.
func (s *StateSchema) stripWriters(n *Node, empty func(*Node) *Node) *Node {
	with := *n
	with.Entries = slices.Clone(n.Entries)
	for i, e := range with.Entries {
		at := e.Value.Get("writable")
		if at == nil || at.Kind != Scalar || slices.Contains(shortTypes(), at.Value) && !isJSONSchema(e.Value) && !isEnum(e.Value) {
			continue // a field named writable
		}
		s.writers[e.Key.Value] = at
		field := *e.Value
		field.Entries = slices.DeleteFunc(slices.Clone(field.Entries), func(f Entry) bool { return f.Key.Value == "writable" })
		with.Entries[i].Value = &field
		if len(field.Entries) == 0 {
			with.Entries[i].Value = empty(&field)
		}
	}
	return &with
}

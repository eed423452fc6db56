package spec

import (
	"slices"
	"strings"
)

// A ShortSchema describes an object's fields in a short form:
//
//	note:  string?                                 # optional
//	n:     integer
//	tags:  [string]
//	tier:  {enum: [free, gold], default: free}
//	who:   {name: string}
//	limit: {type: integer, minimum: 1}             # a JSON Schema
//
// The types are string, integer, number, boolean, object and any. A field with a default is
// optional. A mapping with `type:` or `properties:` is a JSON Schema. The whole value may also be a
// JSON Schema, which must then describe an object.
type ShortSchema struct {
	schema map[string]any
	isFull bool
}

// JSON returns the object's JSON Schema, or nil if there is none. Callers must not modify it.
func (s ShortSchema) JSON() map[string]any { return s.schema }

// IsFull reports whether the whole value is a JSON Schema.
func (s ShortSchema) IsFull() bool { return s.isFull }

// DecodeSpec decodes both forms.
func (s *ShortSchema) DecodeSpec(n *Node) Diagnostics {
	if n.Kind != Mapping {
		return Diagnostics{n.typeError("a mapping of fields to their types").WithHint("write name: string, n: integer, tags: [string]")}
	}
	r := &shortSchemaParser{}
	if !isJSONSchema(n) {
		s.schema = r.parseObject(n)
		return r.ds
	}
	s.schema, s.isFull = r.parseJSONSchema(n), true
	if t := n.Get("type"); t == nil {
		s.schema["type"] = "object"
	} else if t.Value != "object" && slices.Contains(jsonTypes(), t.Value) {
		r.report(t.Errorf("type", "the schema must describe an object, got %q", t.Value))
	}
	return r.ds
}

// SchemaSpec describes a mapping, without its fields.
func (s *ShortSchema) SchemaSpec() map[string]any {
	return map[string]any{
		"type": "object",
		"examples": []any{
			map[string]any{"note": "string?", "n": "integer", "tags": []any{"string"}},
		},
	}
}

// isJSONSchema reports whether a mapping is a JSON Schema and not a mapping with fields. It is not
// if its only keyword is a field named type with an unusual value.
func isJSONSchema(n *Node) bool {
	kinds := map[string]NodeKind{
		"type": Scalar, "properties": Mapping, "$ref": Scalar,
		"anyOf": Sequence, "oneOf": Sequence, "allOf": Sequence,
	}
	for _, e := range n.Entries {
		if kind, ok := kinds[e.Key.Value]; ok && e.Value.Kind == kind && !e.Value.IsNull() {
			return true
		}
	}
	t := n.Get("type")
	return t != nil && t.Kind == Sequence && len(t.Items) > 1
}

type shortSchemaParser struct{ ds Diagnostics }

func (r *shortSchemaParser) report(ds ...Diagnostic) { r.ds = append(r.ds, ds...) }

func (r *shortSchemaParser) parseJSONSchema(n *Node) map[string]any {
	c := newSchemaChecker(n)
	c.checkSchema(n)
	r.report(c.ds...)
	return n.Any().(map[string]any)
}

// parseObject parses a mapping with fields.
func (r *shortSchemaParser) parseObject(n *Node) map[string]any {
	properties := map[string]any{}
	required := []any{}
	for _, e := range n.Entries {
		schema, optional := r.parseField(e.Value)
		properties[e.Key.Value] = schema
		if _, hasDefault := schema["default"]; !optional && !hasDefault {
			required = append(required, e.Key.Value)
		}
	}
	object := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		object["required"] = required
	}
	return object
}

func (r *shortSchemaParser) parseField(n *Node) (schema map[string]any, optional bool) {
	switch {
	case n.Kind == Scalar:
		return r.parseTypeName(n)
	case n.Kind == Sequence:
		return r.parseList(n), false
	case isJSONSchema(n):
		return r.parseJSONSchema(n), false
	case isEnum(n):
		return r.parseEnum(n), false
	}
	return r.parseObject(n), false
}

// parseTypeName parses a type name, with a question mark if it is optional.
func (r *shortSchemaParser) parseTypeName(n *Node) (map[string]any, bool) {
	name, optional := strings.CutSuffix(n.Value, "?")
	switch {
	case n.Tag != strTag:
		r.report(n.typeError("a type").WithHint("valid types: %s", strings.Join(shortTypes(), ", ")))
		return map[string]any{}, optional
	case name == "any":
		return map[string]any{}, optional
	case !slices.Contains(shortTypes(), name):
		r.report(unknownTypeError(n, name))
		return map[string]any{}, optional
	}
	return map[string]any{"type": name}, optional
}

func shortTypes() []string {
	return []string{"string", "integer", "number", "boolean", "object", "any"}
}

// unknownTypeError suggests the type that other languages call name.
func unknownTypeError(n *Node, name string) Diagnostic {
	d := n.Errorf("type", "unknown type %q", name)
	word := map[string]string{
		"str": "string", "text": "string", "int": "integer", "int64": "integer", "float": "number",
		"double": "number", "bool": "boolean", "dict": "object", "map": "object", "mapping": "object",
	}[strings.ToLower(name)]
	switch strings.ToLower(name) {
	case "list", "array":
		return d.WithHint("write a list of strings as [string]")
	}
	if word != "" {
		d = d.WithNearName(name, word)
		if n.isPlain() {
			d = d.WithFix(name, word)
		}
		return d
	}
	if d = d.withSuggestion(name, shortTypes()); d.Hint == "" {
		d.Hint = "valid types: " + strings.Join(shortTypes(), ", ")
	}
	return d
}

func (r *shortSchemaParser) parseList(n *Node) map[string]any {
	if len(n.Items) != 1 {
		r.report(n.Errorf("type", "a list must have one element type, got %d", len(n.Items)).
			WithHint("write [string], or {enum: [a, b]} for an enum"))
		return map[string]any{"type": "array"}
	}
	items, optional := r.parseField(n.Items[0])
	if optional {
		r.report(n.Items[0].Errorf("type", "list elements cannot be optional"))
	}
	return map[string]any{"type": "array", "items": items}
}

func isEnum(n *Node) bool {
	e := n.Get("enum")
	return e != nil && e.Kind == Sequence
}

// parseEnum parses an enum with an optional default and description.
func (r *shortSchemaParser) parseEnum(n *Node) map[string]any {
	schema := map[string]any{}
	for _, e := range n.Entries {
		switch e.Key.Value {
		case "enum":
			schema["enum"] = e.Value.Any()
			if word := r.enumType(e.Value); word != "" {
				schema["type"] = word
			}
		case "default":
			schema["default"] = e.Value.Any()
			r.checkEnumDefault(n.Get("enum"), e.Value)
		case "description":
			schema["description"] = e.Value.Value
			if e.Value.Tag != strTag {
				r.report(e.Value.typeError(stringType))
			}
		default:
			r.report(unknownFieldError(e.Key, []Field{{Name: "enum"}, {Name: "default"}, {Name: "description"}}, Advice{}))
		}
	}
	return schema
}

// enumType checks an enum's values and returns their common type.
func (r *shortSchemaParser) enumType(n *Node) string {
	if len(n.Items) == 0 {
		r.report(n.Errorf("enum", "enum must have at least one value"))
	}
	common := ""
	for i, item := range n.Items {
		if item.Kind != Scalar || item.IsNull() {
			r.report(item.typeError("a string, a number or a boolean"))
			continue
		}
		if slices.ContainsFunc(n.Items[:i], item.equalScalar) {
			r.report(item.Errorf("enum", "duplicate value %q", item.writtenValue()))
		}
		common = joinTypes(common, jsonType(item))
	}
	if common == "mixed" {
		return ""
	}
	return common
}

func (r *shortSchemaParser) checkEnumDefault(enum, value *Node) {
	if !slices.ContainsFunc(enum.Items, value.equalScalar) {
		r.report(value.Errorf("schema-default", "the default %q is not one of: %s", value.writtenValue(), listValues(enum)))
	}
}

// ResolveSchemaNames replaces schema names in a short schema: for a word that is not a type, find
// may return the schema with that name, which is resolved in turn. It reports schemas that refer to
// themselves, and schemas that expand to more than 10,000 values. The tree is not changed; changed
// nodes are copies.
func ResolveSchemaNames(n *Node, find func(name string) *Node) (*Node, Diagnostics) {
	s := schemaResolver{find: find, budget: maxAliased}
	whole := s.resolveField(n)
	if s.budget < 0 {
		s.ds = append(s.ds, n.Errorf("limit", "the referenced schemas exceed the limit of %d values", maxAliased))
		whole = anyTypeNode(n)
	}
	return whole, s.ds
}

// SchemaNames returns the words in a short schema that are not types, and the schema with any type
// instead of each.
func SchemaNames(n *Node) (names []*Node, plain *Node) {
	s := schemaResolver{budget: maxAliased, visit: func(at *Node) { names = append(names, at) }}
	plain = s.resolveField(n)
	return names, plain
}

type schemaResolver struct {
	find func(name string) *Node
	// visit, if set, gets each name instead of find.
	visit func(at *Node)
	// budget is how many values names may still add.
	budget int
	// resolving holds the names whose schemas are being resolved.
	resolving []string
	ds        Diagnostics
}

func (s *schemaResolver) resolveField(n *Node) *Node {
	if len(s.resolving) > 0 {
		s.budget--
	}
	switch {
	case s.budget < 0:
		return n
	case n.Kind == Scalar:
		return s.resolveName(n)
	case n.Kind == Sequence:
		with := *n
		with.Items = make([]*Node, len(n.Items))
		for i, item := range n.Items {
			with.Items[i] = s.resolveField(item)
		}
		if slices.Equal(with.Items, n.Items) {
			return n
		}
		return &with
	case isJSONSchema(n) || isEnum(n):
		return n
	}
	with := *n
	with.Entries = make([]Entry, len(n.Entries))
	for i, e := range n.Entries {
		with.Entries[i] = Entry{e.Key, s.resolveField(e.Value)}
	}
	if slices.Equal(with.Entries, n.Entries) {
		return n
	}
	return &with
}

// anyTypeNode replaces a schema that cannot be resolved.
func anyTypeNode(n *Node) *Node { return &Node{Pos: n.Pos, Tag: strTag, Value: "any", src: n.src} }

func (s *schemaResolver) resolveName(n *Node) *Node {
	if n.Tag != strTag || slices.Contains(shortTypes(), n.Value) {
		return n
	}
	if s.visit != nil {
		s.visit(n)
		return anyTypeNode(n)
	}
	found := s.find(n.Value)
	switch {
	case found == nil:
		return n
	case slices.Contains(s.resolving, n.Value):
		s.ds = append(s.ds, n.Errorf("cycle", "schema %s refers to itself", n.Value).
			WithHint("for a recursive schema, use a JSON Schema with $defs and $ref"))
		return anyTypeNode(n)
	}
	s.resolving = append(s.resolving, n.Value)
	whole := s.resolveField(found)
	s.resolving = s.resolving[:len(s.resolving)-1]
	return whole
}

package spec

// A ValueSchema describes a value of any type, in the form of a field of a
// [ShortSchema]: a mapping is an object, [string] a list of strings, and a word a type.
type ValueSchema struct {
	schema map[string]any
}

// JSON returns the JSON Schema of the value, or nil if there is none. Callers must not
// modify it.
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

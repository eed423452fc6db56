package spec

// A ValueSchema describes a value of any kind: a mapping is read as a
// [ShortSchema] reads a field, [string] is a list of texts, and a plain word is
// a type.
type ValueSchema struct {
	schema map[string]any
}

// JSON is the JSON Schema of the value, or nil when none was written. The map
// belongs to the schema and is only read.
func (s ValueSchema) JSON() map[string]any { return s.schema }

// DecodeSpec reads each of the forms.
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

// SchemaSpec tells editors which forms there are.
func (s *ValueSchema) SchemaSpec() map[string]any {
	return map[string]any{
		"title": "schema", "type": []any{"object", "array", "string"},
		"examples": []any{map[string]any{"score": "integer", "tags": []any{"string"}}},
	}
}

package runtime

import (
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// outputSchema is the YAML of an output schema, compiled when it is decoded.
type outputSchema struct{ schema *tool.Schema }

// DecodeSpec decodes a short schema or a JSON Schema of any value.
func (s *outputSchema) DecodeSpec(n *spec.Node) (ds spec.Diagnostics) {
	s.schema, ds = decodeSchema(n, &spec.ValueSchema{})
	return ds
}

// SchemaSpec describes the forms.
func (s *outputSchema) SchemaSpec() map[string]any { return (&spec.ValueSchema{}).SchemaSpec() }

// inputSchema is the YAML of a schema of arguments, compiled when it is decoded.
type inputSchema struct{ schema *tool.Schema }

// DecodeSpec decodes a short schema or a JSON Schema of an object.
func (s *inputSchema) DecodeSpec(n *spec.Node) (ds spec.Diagnostics) {
	s.schema, ds = decodeSchema(n, &spec.ShortSchema{})
	return ds
}

// SchemaSpec describes the forms.
func (s *inputSchema) SchemaSpec() map[string]any {
	forms := (&spec.ShortSchema{}).SchemaSpec()
	forms["title"] = "schema"
	return forms
}

// writtenSchema is a schema in YAML.
type writtenSchema interface {
	spec.Decoder
	JSON() map[string]any
}

// decodeSchema decodes and compiles a schema. The rule is code for a schema that
// ADK resolves in Python.
func decodeSchema(n *spec.Node, into writtenSchema) (*tool.Schema, spec.Diagnostics) {
	if at := CodeRef(n); at != nil {
		return nil, spec.Diagnostics{schemaCodeError(at)}
	}
	ds := into.DecodeSpec(n)
	if ds.HasErrors() {
		return nil, ds
	}
	schema, err := tool.NewSchema(into.JSON())
	if err != nil {
		return nil, append(ds, n.Errorf("value", "%s", err))
	}
	return schema, ds
}

func schemaCodeError(at *spec.Node) spec.Diagnostic {
	return at.Errorf("code", "schema %s is code that this host does not have", at.Value).
		WithHint("declare a replacement under functions in app.yaml, or write its fields here, such as {score: integer}, or a JSON Schema")
}

// CodeRef returns the node of the dotted name of an ADK CodeRef, or nil. The forms
// are {name: my.module.Class} and the name alone: types of short schemas contain
// no dot.
func CodeRef(n *spec.Node) *spec.Node {
	at := n
	if n.Kind == spec.Mapping {
		at = n.Get("name")
	}
	if at == nil || at.Kind != spec.Scalar || !strings.Contains(at.Value, ".") {
		return nil
	}
	return at
}

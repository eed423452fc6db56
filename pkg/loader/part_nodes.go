package loader

import "agenthost/pkg/spec"

// The parts of a document that are decoded later, when it is known what they
// are: they keep their nodes, and tell editors what may stand there.
type (
	modelNode    struct{ node *spec.Node }
	agentNode    struct{ node *spec.Node }
	toolNode     struct{ node *spec.Node }
	functionNode struct{ node *spec.Node }
	schemaNode   struct{ node *spec.Node }
	defaultsNode struct{ node *spec.Node }
)

func (m modelNode) yamlNode() *spec.Node    { return m.node }
func (a agentNode) yamlNode() *spec.Node    { return a.node }
func (t toolNode) yamlNode() *spec.Node     { return t.node }
func (f functionNode) yamlNode() *spec.Node { return f.node }
func (s schemaNode) yamlNode() *spec.Node   { return s.node }
func (d defaultsNode) yamlNode() *spec.Node { return d.node }

// DecodeSpec keeps the node.
func (m *modelNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return keepMapping(n, &m.node, "a model")
}

// SchemaSpec refers to the definition.
func (m *modelNode) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/model"} }

// DecodeSpec keeps the node.
func (a *agentNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return keepMapping(n, &a.node, "an agent")
}

// SchemaSpec refers to the definition.
func (a *agentNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/named_agent"}
}

// DecodeSpec keeps the node.
func (t *toolNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return keepMapping(n, &t.node, "a tool")
}

// SchemaSpec refers to the definition.
func (t *toolNode) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/tool"} }

// DecodeSpec keeps the node; what it must be depends on where its name stands.
func (f *functionNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	f.node = n
	if n.IsNull() {
		return spec.Diagnostics{n.Errorf("type", "a function is a tool, the rule of a callback, a schema, an agent or a model")}
	}
	return nil
}

// SchemaSpec describes what may stand in the place of a name.
func (f *functionNode) SchemaSpec() map[string]any {
	return map[string]any{
		"title": "a tool, a callback, a schema, an agent or a model",
		"anyOf": []any{
			map[string]any{"$ref": "#/$defs/tool"},
			map[string]any{"$ref": "#/$defs/callback"},
			map[string]any{"$ref": "#/$defs/named_agent"},
			map[string]any{"$ref": "#/$defs/model"},
			map[string]any{"type": []any{"object", "array", "string"}},
		},
	}
}

// DecodeSpec keeps a schema that is right.
func (s *schemaNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	s.node = n
	return nil
}

// SchemaSpec describes the forms.
func (s *schemaNode) SchemaSpec() map[string]any { return (&spec.ValueSchema{}).SchemaSpec() }

// DecodeSpec keeps the node.
func (d *defaultsNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return keepMapping(n, &d.node, "what the agents of a class have")
}

// SchemaSpec describes a mapping of an agent's fields.
func (d *defaultsNode) SchemaSpec() map[string]any {
	return map[string]any{"type": "object", "title": "mapping of the fields of an agent of this class"}
}

func keepMapping(n *spec.Node, into **spec.Node, what string) spec.Diagnostics {
	*into = n
	if n.Kind != spec.Mapping {
		return spec.Diagnostics{n.Errorf("type", "%s is a mapping with its settings", what)}
	}
	return nil
}

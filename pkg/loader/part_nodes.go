package loader

import "agenthost/pkg/spec"

// These types keep the nodes of sections that are decoded later, when their kinds are
// known. Their schemas describe the possible values for editors.
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

// DecodeSpec keeps the node; its type depends on where the name is used.
func (f *functionNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	f.node = n
	if n.IsNull() {
		return spec.Diagnostics{n.Errorf("type", "a function must be a tool, a callback rule, a schema, an agent or a model")}
	}
	return nil
}

// SchemaSpec describes the possible replacements of a name.
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

// DecodeSpec keeps a valid schema.
func (s *schemaNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	s.node = n
	return nil
}

// SchemaSpec describes the forms.
func (s *schemaNode) SchemaSpec() map[string]any { return (&spec.ValueSchema{}).SchemaSpec() }

// DecodeSpec keeps the node.
func (d *defaultsNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	return keepMapping(n, &d.node, "the defaults of a class")
}

// SchemaSpec describes a mapping of an agent's fields.
func (d *defaultsNode) SchemaSpec() map[string]any {
	return map[string]any{"type": "object", "title": "mapping of fields of the class"}
}

func keepMapping(n *spec.Node, into **spec.Node, what string) spec.Diagnostics {
	*into = n
	if n.Kind != spec.Mapping {
		return spec.Diagnostics{n.Errorf("type", "%s must be a mapping", what)}
	}
	return nil
}

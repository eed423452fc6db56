package toolconfig

import (
	"errors"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

var _ spec.Decoder = (*ConfirmConfig)(nil)

// A ConfirmConfig is the YAML for a confirmation: an expression, or the same as when, with the
// arguments that the person may change.
type ConfirmConfig struct {
	When spec.Expr
	Edit []spec.Text
}

// confirmMapping is the long form.
type confirmMapping struct {
	When spec.Expr   `yaml:"when" default:"true" doc:"Whether a call requires confirmation."`
	Edit []spec.Text `yaml:"edit" required:"true" doc:"The arguments that the person may change before the call runs."`
}

// DecodeSpec decodes both forms.
func (c *ConfirmConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		return c.When.DecodeSpec(n)
	}
	var long confirmMapping
	ds := spec.Decode(n, &long)
	c.When, c.Edit = long.When, long.Edit
	c.When.Pos = n.Pos
	if at := n.Get("when"); at != nil {
		c.When.Pos = at.Pos
	}
	if edit := n.Get("edit"); edit != nil && edit.Kind == spec.Sequence && len(edit.Items) == 0 {
		ds = append(ds, edit.Errorf("type", "edit requires at least one argument").WithHint("write confirm: EXPRESSION if the arguments cannot change"))
	}
	return ds
}

// SchemaSpec describes both forms.
func (c *ConfirmConfig) SchemaSpec() map[string]any {
	return map[string]any{
		"type": []any{"string", "boolean", "object"}, "additionalProperties": false, "required": []any{"edit"},
		"properties": map[string]any{
			"when": map[string]any{"type": []any{"string", "boolean"}, "default": "true", "description": "Whether a call requires confirmation."},
			"edit": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "minItems": 1, "description": "The arguments that the person may change before the call runs."},
		},
	}
}

var _ spec.Decoder = (*ToolsetConfirm)(nil)

// A ToolsetConfirm is the YAML for the confirmation of a tool set's calls: an expression. Its tools are
// not known before it lists them, so no argument can be one that a person may change.
type ToolsetConfirm struct{ spec.Expr }

// DecodeSpec decodes the expression.
func (c *ToolsetConfirm) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		return c.Expr.DecodeSpec(n)
	}
	when := "true"
	if at := n.Get("when"); at != nil && at.Kind == spec.Scalar {
		when = at.Value
	}
	return spec.Diagnostics{n.Errorf("type", "confirm must be an expression for a tool set, got a mapping: edit is available on single tools").
		WithHint("write confirm: %s, or declare the call as an http, command, expr or agent tool to let a person change its arguments", when)}
}

// SchemaSpec describes the expression.
func (c *ToolsetConfirm) SchemaSpec() map[string]any {
	return map[string]any{"title": "expression", "type": []any{"string", "number", "boolean"}}
}

// compileEdit returns the editor for the arguments that a person may change, or nil.
func (c *ConfirmConfig) compileEdit(params *tool.Params) (*tool.ArgsEditor, error) {
	if len(c.Edit) == 0 {
		return nil, nil
	}
	names := make([]string, len(c.Edit))
	for i, name := range c.Edit {
		names[i] = name.Value
	}
	editor, err := tool.NewArgsEditor(params, names)
	if unknown := (*tool.UnknownParamError)(nil); errors.As(err, &unknown) {
		d := c.Edit[unknown.Index].Errorf(0, "tool", "confirm: edit: %s", err)
		if len(unknown.Known) == 0 {
			return nil, spec.Diagnostics{d.WithHint("remove it: the tool declares no parameters")}
		}
		return nil, spec.Diagnostics{d.WithHint("the parameters are %s", strings.Join(unknown.Known, ", "))}
	}
	return editor, err
}

// SetConfirm compiles the confirmation of the tool with a name into its capabilities. Problems are
// reported.
func (c *Compiler) SetConfirm(all *tool.Capabilities, config *ConfirmConfig, name string) {
	if config.When.Pos == (spec.Pos{}) {
		return
	}
	x, err := template.CompileBool(config.When.Value, CallEnv(c.Params))
	if err != nil {
		c.AddDiagnostic(tool.NewTemplateDiagnostic(config.When.Text, "expression", err))
		return
	}
	all.Confirm = &confirmExpr{name, c.Params, x, nil}
	all.Edit, err = config.compileEdit(c.Params)
	c.AddDiagnostics(err)
}

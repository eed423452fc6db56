package agentconfig

import (
	"reflect"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

func schemaCodeError(at *spec.Node) spec.Diagnostic {
	return at.Errorf("code", "schema %s is code that this host does not have", at.Value).
		WithHint("declare a replacement under functions in app.yaml, or write its fields here, such as {score: integer}, or a JSON Schema")
}

// outputSchema is an output schema's YAML, compiled when it is decoded.
type outputSchema struct{ schema *tool.Schema }

// DecodeSpec decodes a short schema or a JSON Schema for any value.
func (s *outputSchema) DecodeSpec(n *spec.Node) (ds spec.Diagnostics) {
	s.schema, ds = decodeSchema(n, &spec.ValueSchema{})
	return ds
}

// SchemaSpec describes the forms.
func (s *outputSchema) SchemaSpec() map[string]any { return (&spec.ValueSchema{}).SchemaSpec() }

// inputSchema is the YAML for an argument schema, compiled when it is decoded.
type inputSchema struct{ schema *tool.Schema }

// DecodeSpec decodes a short schema or a JSON Schema for an object.
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
		for i, d := range ds {
			if n.Kind == spec.Scalar && strings.HasPrefix(d.Message, "unknown type") && d.Fix == (spec.Fix{}) {
				ds[i] = d.WithHint("declare %s under schemas: in app.yaml, or write the fields here, such as {score: integer}", n.Value)
			}
		}
		return nil, ds
	}
	schema, err := declare.Schema(into.JSON())
	if err != nil {
		return nil, append(ds, n.Errorf("value", "%s", err))
	}
	return schema, ds
}

// StateSchemaConfig is a state schema's YAML.
type StateSchemaConfig struct{ Schema *tool.StateSchema }

// DecodeSpec decodes a short schema or a JSON Schema for an object, whose keys may restrict their
// writers.
func (s *StateSchemaConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	var written spec.StateSchema
	if at := CodeRef(n); at != nil {
		return spec.Diagnostics{schemaCodeError(at)}
	}
	ds := written.DecodeSpec(n)
	if ds.HasErrors() {
		return ds
	}
	whole := written.JSON()
	properties, _ := whole["properties"].(map[string]any)
	for key, at := range written.Writers() {
		if _, known := session.ParseWriter(at.Value); !known {
			d := at.Errorf("state-schema", "writable must be one of %s, got %q", strings.Join(session.WriterNames(), ", "), at.Value)
			if near := spec.Suggest(at.Value, session.WriterNames()); near != "" {
				d = d.WithNearName(at.Value, near)
			}
			ds = append(ds, d)
			continue
		}
		if prop, ok := properties[key].(map[string]any); ok {
			prop["writable"] = at.Value
		}
	}
	if ds.HasErrors() {
		return ds
	}
	schema, err := declare.StateSchema(whole)
	if err != nil {
		return append(ds, n.Errorf("state-schema", "%s", err))
	}
	s.Schema = schema
	return ds
}

// SchemaSpec describes the forms.
func (s *StateSchemaConfig) SchemaSpec() map[string]any {
	forms := (&inputSchema{}).SchemaSpec()
	var names []any
	for _, name := range session.WriterNames() {
		names = append(names, name)
	}
	forms["additionalProperties"] = map[string]any{"properties": map[string]any{"writable": map[string]any{
		"enum":        names,
		"description": "Who can write the key: client (the default) means everyone, agent the app's agents, tools and callbacks and administrators, admin only administrators.",
	}}}
	return forms
}

// A ResumabilityConfig configures whether invocations can be resumed: resumability_config in
// app.yaml or on the root agent (adk-python apps/app.py ResumabilityConfig). Both fields mean the
// same.
type ResumabilityConfig struct {
	IsResumable        bool `yaml:"is_resumable" doc:"Interrupted invocations can be resumed, and those that wait for input pause as a whole."`
	EnableResumability bool `yaml:"enable_resumability" doc:"Same as is_resumable."`
}

// DecodeSpec decodes the fields and rejects contradictory values.
func (c *ResumabilityConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	type fields ResumabilityConfig
	ds := spec.Decode(n, (*fields)(c))
	at := n.Get("enable_resumability")
	if !ds.HasErrors() && at != nil && n.Get("is_resumable") != nil && c.IsResumable != c.EnableResumability {
		ds = append(ds, at.Errorf("resumability", "is_resumable and enable_resumability are the same setting, but their values differ").
			WithHint("remove one of them"))
	}
	return ds
}

// SchemaSpec describes the fields.
func (c *ResumabilityConfig) SchemaSpec() map[string]any {
	flag := new(spec.SchemaSet).Of(reflect.TypeFor[bool]())
	return map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{"is_resumable": flag, "enable_resumability": flag},
	}
}

// Resumable reports whether either field is true; it is false for nil.
func (c *ResumabilityConfig) Resumable() bool {
	return c != nil && (c.IsResumable || c.EnableResumability)
}

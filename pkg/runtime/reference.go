package runtime

import (
	"fmt"
	"log/slog"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// CommonConfig has the YAML fields of all agents.
type CommonConfig struct {
	AgentClass  spec.Text  `yaml:"agent_class" doc:"The agent class. Default: LlmAgent."`
	Name        spec.Text  `yaml:"name" required:"true" doc:"The agent's name: letters, digits and underscores, unique among its siblings."`
	Description string     `yaml:"description" doc:"Description of the agent; other agents use it to decide about transfers."`
	SubAgents   []AgentRef `yaml:"sub_agents" doc:"The sub-agents, in order."`
	When        *Condition `yaml:"when" doc:"Run the agent only when this is true, and skip it otherwise; can use state, user, session, invocation and agent."`

	StateSchema StateSchemaConfig `yaml:"state_schema" doc:"On the root agent: types and defaults of the state keys, as a short schema or a JSON Schema."`

	Resumability *ResumabilityConfig `yaml:"resumability_config" doc:"On the root agent: whether invocations can be resumed; also in app.yaml."`

	Callbacks agentCallbackLists `yaml:",inline"`
}

// AgentRefs returns the sub-agents.
func (c *CommonConfig) AgentRefs() []*AgentRef {
	refs := make([]*AgentRef, len(c.SubAgents))
	for i := range c.SubAgents {
		refs[i] = &c.SubAgents[i]
	}
	return refs
}

// An AgentRef refers to an agent by its file, by its name under agents or by the
// code that creates it, or contains it inline. Exactly one is set.
type AgentRef struct {
	ConfigPath, Use, Code spec.Text
	// Inline is the agent's own mapping.
	Inline *spec.Node
	// Node is the node of the reference.
	Node *spec.Node
}

// DecodeSpec accepts the four forms.
func (r *AgentRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.Node = n
	if n.Kind != spec.Mapping {
		return spec.Diagnostics{n.Errorf("type", "an agent must be {config_path: FILE}, {use: NAME}, or an inline agent with a name")}
	}
	for _, form := range []struct {
		key  string
		into *spec.Text
	}{{"config_path", &r.ConfigPath}, {"use", &r.Use}, {"code", &r.Code}} {
		if len(n.Entries) == 1 && n.Get(form.key) != nil {
			return form.into.DecodeSpec(n.Get(form.key))
		}
	}
	for _, key := range []string{"config_path", "use", "code"} {
		if v := n.Get(key); v != nil {
			return spec.Diagnostics{v.Errorf("agent-ref", "%s cannot be combined with other keys", key)}
		}
	}
	r.Inline = n
	return nil
}

// SchemaSpec describes the forms; an inline agent is #/$defs/agent.
func (r *AgentRef) SchemaSpec() map[string]any {
	one := func(key, doc string) map[string]any {
		return map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{key},
			"properties": map[string]any{key: map[string]any{"type": "string", "description": doc}},
		}
	}
	return map[string]any{"anyOf": []any{
		one("config_path", "A file with the agent, below the folder of this file."),
		one("use", "A named agent of agents:."),
		one("code", "A dotted name of an agent made by code."),
		map[string]any{"$ref": "#/$defs/agent"},
	}}
}

// A ToolRef refers to a tool by ADK's name with args, by its name under tools, or
// by a kind with its settings.
type ToolRef struct {
	// Name is ADK's name of a built-in tool, or a dotted name of code.
	Name spec.Text
	// Args are the arguments of Name; nil if there are none.
	Args *spec.Node
	// Use is the name of a tool declared in the document.
	Use spec.Text
	// Kind is the key of a one-key mapping, Config its value.
	Kind   spec.Text
	Config *spec.Node
	// Node is the node of the reference.
	Node *spec.Node
}

// DecodeSpec accepts the three forms. ADK's args are a mapping, or a list of
// {name, value} as in ADK for Java.
func (r *ToolRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.Node = n
	switch {
	case n.Kind == spec.Scalar && !n.IsNull():
		d := n.Errorf("type", "a tool must be a mapping")
		d.Hint = fmt.Sprintf("write - name: %s for a built-in tool, - use: %[1]s for one of tools: in app.yaml", n.Value)
		return spec.Diagnostics{d}
	case n.Kind != spec.Mapping:
		return spec.Diagnostics{n.Errorf("type", "a tool must be {name: NAME}, {use: NAME}, or {KIND: {…}}")}
	case n.Get("name") != nil:
		return r.decodeNamed(n)
	case len(n.Entries) != 1:
		return spec.Diagnostics{n.Errorf("type", "a tool must have one key with its settings, such as http: {…}, or name with args")}
	case n.Get("use") != nil:
		return r.Use.DecodeSpec(n.Get("use"))
	}
	e := n.Entries[0]
	r.Config = e.Value
	return r.Kind.DecodeSpec(e.Key)
}

// SchemaSpec refers to the tools' definition, which lists the kinds.
func (r *ToolRef) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/tool"} }

func (r *ToolRef) decodeNamed(n *spec.Node) spec.Diagnostics {
	var c struct {
		Name spec.Text  `yaml:"name"`
		Args *spec.Node `yaml:"args"`
	}
	ds := spec.Decode(n, &c)
	r.Name, r.Args = c.Name, c.Args
	return ds
}

// referenceKey is equal for references to the same agent; it is empty for an
// inline agent.
func (r *AgentRef) referenceKey() string {
	switch {
	case r.Use.Value != "":
		return "use " + r.Use.Value
	case r.ConfigPath.Value != "":
		return "config_path " + r.ConfigPath.Value
	}
	return ""
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

func schemaCodeError(at *spec.Node) spec.Diagnostic {
	return at.Errorf("code", "schema %s is code that this host does not have", at.Value).
		WithHint("declare a replacement under functions in app.yaml, or write its fields here, such as {score: integer}, or a JSON Schema")
}

func nameOrMappingSchema() map[string]any {
	return map[string]any{"title": "name", "anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"name"},
			"properties": map[string]any{"name": map[string]any{"type": "string"}},
		},
	}}
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// AgentEnv has the parts that an agent is built from.
type AgentEnv struct {
	SubAgents []Agent
	Tools     []tool.Tool
	// Toolsets provide tools that are listed during a run.
	Toolsets []tool.Set
	// Model is nil if the agent does not set one.
	Model model.LLM
}

// AgentToolEnv has the parts that an agent tool is built from.
type AgentToolEnv struct {
	Agent Agent
}

// PluginEnv has the dependencies of plugins.
type PluginEnv struct {
	// Logger is never nil.
	Logger *slog.Logger
}

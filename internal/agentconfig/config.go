package agentconfig

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// CommonConfig has the YAML fields that all agents have.
type CommonConfig struct {
	AgentClass  spec.Text  `yaml:"agent_class" doc:"The agent class. Absent or empty: LlmAgent."`
	Name        spec.Text  `yaml:"name" required:"true" doc:"The agent's name: letters, digits and underscores, unique among its siblings."`
	Description string     `yaml:"description" doc:"Agent description; other agents use it to decide about transfers."`
	SubAgents   []AgentRef `yaml:"sub_agents" doc:"The sub-agents, in order."`
	When        *Condition `yaml:"when" doc:"Run the agent only when this is true, and skip it otherwise; can use state, user, session, run_config, invocation and agent."`

	StateSchema StateSchemaConfig `yaml:"state_schema" doc:"On the root agent: types and defaults for state keys, as a short schema or a JSON Schema."`

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

// The config of an agent class, an agent tool or a plugin implements the interfaces below that
// apply to it. The loader resolves and checks what they return. All are optional.
type (
	// A ModelConfig has a model: its name, which may be empty, and the field that names it
	// as code, which may be nil.
	ModelConfig interface {
		ModelName() spec.Text
		ModelCodeNode() *spec.Node
	}
	// An AgentConfig refers to other agents: its sub-agents, or the agent that a tool
	// calls.
	AgentConfig interface{ AgentRefs() []*AgentRef }
	// A ToolConfig refers to tools.
	ToolConfig interface{ ToolRefs() []*ToolRef }
	// A PromptConfig may use an MCP server's prompt; nil if it does not.
	PromptConfig interface{ PromptRef() *PromptRef }
	// A FunctionConfig names Go functions, which Bind resolves.
	FunctionConfig interface {
		Bind(f *Functions) spec.Diagnostics
	}
	// A FileConfig names the app's text files.
	FileConfig interface {
		ReadFiles(read func(path string) (string, error)) spec.Diagnostics
	}
	// An InstructionConfig has instructions for a model.
	InstructionConfig interface{ Instructions() []spec.Text }
	// A CodeConfig may enable the model's code execution: BuiltInCode returns the setting in the
	// agent n, or nil.
	CodeConfig interface{ BuiltInCode(n *spec.Node) *spec.Node }
	// An ExecutorConfig may run its model's code in an executor. BindExecutor finds it among the
	// program's executors; ExecutorPlan then returns its plan if it is of a kind, or nil.
	ExecutorConfig interface {
		BindExecutor(kinds ExecutorKinds, f *Functions) spec.Diagnostics
		ExecutorPlan() *ExecutorPlan
	}
	// An EdgeConfig runs its sub-agents along edges, which Graph returns as they are written.
	EdgeConfig interface {
		WorkflowEdges() []runtime.Edge
		Graph() *Graph
	}
	// A ServerConfig reaches a server. ServerSet returns the kind of the set with which it does, and the
	// set's settings in the agent n. The loader checks their addresses and their connection as those of a
	// tool, and builds the set.
	ServerConfig interface {
		ServerSet(n *spec.Node) (spec.Kind[tool.Env, tool.Set], *spec.Node)
	}
	// A RouteConfig has routes, which are checked against the state schema; it may be nil.
	RouteConfig interface {
		CheckRoutes(n *spec.Node, s *tool.StateSchema) spec.Diagnostics
	}
)

// AgentEnv has the parts that an agent is built from.
type AgentEnv struct {
	SubAgents []runtime.Agent
	Tools     []tool.Tool
	// Toolsets provide tools that are listed during a run.
	Toolsets []tool.Set
	// Prompts has the prompt for a [PromptConfig]; nil if there is none.
	Prompts tool.PromptSource
	// Model is nil if the agent does not set one. For a [ServerConfig] it is the model that replaces all
	// models, such as in tests, or nil.
	Model model.LLM
	// WrapModel wraps the model that a [ServerConfig] makes of its server.
	WrapModel func(model.LLM) model.LLM
	// Server is the set of a [ServerConfig], else nil.
	Server tool.Set
	// Executor runs the code for an [ExecutorConfig] that has a plan, else nil.
	Executor runtime.CodeExecutor
}

// AgentToolEnv has the parts that an agent tool is built from.
type AgentToolEnv struct {
	// Agent is the agent that the tool calls, Model the model for a [ModelConfig].
	Agent runtime.Agent
	Model model.LLM
}

// PluginEnv has what plugins depend on.
type PluginEnv struct {
	// Logger is never nil.
	Logger *slog.Logger
}

// Functions are the Go functions that documents can refer to by name. The zero
// value has none.
type Functions struct {
	// Callbacks can be used in callback lists, for the hooks that they have functions for.
	Callbacks map[string]runtime.Callbacks
	// Tools can be used in tool lists and in a ToolNode. Models see the name in their Declaration.
	Tools map[string]tool.Tool
	// Nodes can be used in a FunctionNode.
	Nodes map[string]runtime.NodeFunc
	// CodeExecutors can be used in code_executor.
	CodeExecutors map[string]runtime.CodeExecutor
	// ContentFilters can be used in the plugin context_filter's custom_filter.
	ContentFilters map[string]runtime.ContentFilter
}

// An AgentRef refers to an agent by its file, by its name under agents or by the
// code that creates it, or contains it inline. Exactly one is set.
type AgentRef struct {
	ConfigPath, Use, Code spec.Text
	// Inline is the agent's own mapping.
	Inline *spec.Node
	// Node is the reference's node.
	Node *spec.Node
}

// DecodeSpec accepts the four forms.
func (r *AgentRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.Node = n
	if n.Kind != spec.Mapping {
		return spec.Diagnostics{agentFormError(n)}
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

// agentFormError reports an agent that is not a mapping, such as a file's name.
func agentFormError(n *spec.Node) spec.Diagnostic {
	d := n.Errorf("type", "an agent must be {config_path: FILE}, {use: NAME}, or an inline agent with a name")
	switch {
	case n.Kind != spec.Scalar || n.IsNull():
		return d
	case strings.HasSuffix(n.Value, ".yaml") || strings.HasSuffix(n.Value, ".yml"):
		form := "{config_path: " + n.Value + "}"
		return d.WithHint("write %s", form).WithFix(n.Value, form)
	}
	return d.WithHint("write {use: %s} for an agent under agents:, or {config_path: %[1]s.yaml} for one in a file", n.Value)
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
	// Name is ADK's name for a built-in tool, or a dotted code name.
	Name spec.Text
	// Args are the arguments for Name; nil if there are none.
	Args *spec.Node
	// Use is a tool's name declared in the document.
	Use spec.Text
	// Kind is the key in a one-key mapping, Config its value.
	Kind   spec.Text
	Config *spec.Node
	// Node is the reference's node.
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
	}
	if d, ok := flatToolError(n); ok {
		return spec.Diagnostics{d}
	}
	switch {
	case n.Get("name") != nil:
		return r.decodeNamed(n)
	case len(n.Entries) != 1:
		return spec.Diagnostics{n.Errorf("type", "a tool must have one key with its settings, such as http: {…}, or name with args").
			WithHint("begin each tool with a dash, and write all its settings under its kind")}
	case n.Get("use") != nil:
		return r.Use.DecodeSpec(n.Get("use"))
	}
	e := n.Entries[0]
	r.Config = e.Value
	return r.Kind.DecodeSpec(e.Key)
}

// flatToolError reports a tool whose settings are not under their kind, as in programs where
// `type: mcp` or `url: …` makes the kind.
func flatToolError(n *spec.Node) (d spec.Diagnostic, ok bool) {
	if len(n.Entries) < 2 && n.Get("type") == nil {
		return d, false
	}
	of := map[string]string{"url": "http", "endpoint": "http", "method": "http", "value": "expr", "command": "mcp"}
	name := ""
	if at := n.Get("name"); at != nil && at.Kind == spec.Scalar {
		name, of["command"] = "name: "+at.Value+", ", "command"
	}
	kinds := []string{"http", "mcp", "openapi", "expr", "command", "skills", "agent"}
	var kind string
	for _, e := range n.Entries {
		switch key := e.Key.Value; {
		case e.Value.IsNull() && slices.Contains(kinds, key):
			return e.Key.Errorf("type", "the settings of %s must be indented under it", key).
				WithHint("indent the lines below %s: by two more spaces, or write %[1]s: {…}", key), true
		case slices.Contains(kinds, key) && e.Value.Kind == spec.Mapping:
			return d, false
		case (key == "type" || key == "kind") && slices.Contains(kinds, e.Value.Value):
			kind = e.Value.Value
		case of[key] != "" && kind == "":
			kind = of[key]
		}
	}
	if kind == "" {
		return d, false
	}
	return n.Errorf("type", "a tool's settings must be under its kind").WithHint("write - %s: {%s…}, with the settings inside the braces", kind, name), true
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

// CodeRef returns the node with an ADK CodeRef's dotted name, or nil. The forms are {name:
// my.module.Class} and the name alone: short schema types contain no dot.
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

func nameOrMappingSchema() map[string]any {
	return map[string]any{"title": "name", "anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"name"},
			"properties": map[string]any{"name": map[string]any{"type": "string"}},
		},
	}}
}

// wrapInMapping returns the mapping {key: n} at n's position.
func wrapInMapping(key string, n *spec.Node) *spec.Node {
	k, m := *n, *n
	k.Value = key
	m.Kind, m.Tag, m.Value = spec.Mapping, "!!map", ""
	m.Entries = []spec.Entry{{Key: &k, Value: n}}
	return &m
}

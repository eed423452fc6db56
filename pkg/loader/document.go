package loader

import (
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A document is app.yaml: what an app is beside its agents' files.
type document struct {
	Name        spec.Text            `yaml:"name" doc:"The app's name. It is that of its folder, so this may only repeat it."`
	Description string               `yaml:"description" doc:"What the app is for."`
	RootAgent   *rootRef             `yaml:"root_agent" doc:"The agent at the top: a file (root_agent.yaml when nothing is said), or the agent written out."`
	Models      map[string]modelNode `yaml:"models" doc:"Models by the names that agents use, each with its provider."`
	Agents      map[string]agentNode `yaml:"agents" doc:"Agents by name, for {use: NAME}."`
	Tools       map[string]toolNode  `yaml:"tools" doc:"Tools by name, for {use: NAME}."`
	RunConfig   *runConfigNode       `yaml:"run_config" doc:"How invocations run."`
	Plugins     []pluginRef          `yaml:"plugins" doc:"What takes part in every run, in this order: names, or names with their settings."`

	ContextCache *runtime.ContextCacheConfig `yaml:"context_cache_config" doc:"Have models keep the beginning of a conversation, so that it is not sent and paid for again each time."`
	Resumability *runtime.ResumabilityConfig `yaml:"resumability_config" doc:"Whether invocations that were cut off, or that wait for somebody, go on where they were."`
	Compaction   *compactionNode             `yaml:"events_compaction_config" doc:"When the older part of a conversation is replaced by a summary."`
	Reload       *runtime.ReloadConfig       `yaml:"reload" doc:"What becomes of changes of the app's files while it serves."`
	Retention    spec.Duration               `yaml:"retention" doc:"How long a session is kept after its last event, such as 30d; then serve deletes it with its artifacts. Without it, sessions are kept."`
}

// rootRef is the root agent: a file, or the agent written out.
type rootRef struct {
	file   spec.Text
	inline *spec.Node
}

// DecodeSpec accepts a path or a mapping.
func (r *rootRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping {
		r.inline = n
		return nil
	}
	return r.file.DecodeSpec(n)
}

// SchemaSpec describes both.
func (r *rootRef) SchemaSpec() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"$ref": "#/$defs/agent"},
	}}
}

// The parts of a document that are decoded later, when it is known what they
// are: they keep their nodes, and tell editors what may stand there.
type (
	modelNode     struct{ node *spec.Node }
	agentNode     struct{ node *spec.Node }
	toolNode      struct{ node *spec.Node }
	runConfigNode struct {
		node   *spec.Node
		config runtime.RunConfig
	}
)

// DecodeSpec keeps the node.
func (m *modelNode) DecodeSpec(n *spec.Node) spec.Diagnostics { return keep(n, &m.node, "a model") }

// SchemaSpec refers to the definition.
func (m *modelNode) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/model"} }

// DecodeSpec keeps the node.
func (a *agentNode) DecodeSpec(n *spec.Node) spec.Diagnostics { return keep(n, &a.node, "an agent") }

// SchemaSpec refers to the definition.
func (a *agentNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/named_agent"}
}

// DecodeSpec keeps the node.
func (t *toolNode) DecodeSpec(n *spec.Node) spec.Diagnostics { return keep(n, &t.node, "a tool") }

// SchemaSpec refers to the definition.
func (t *toolNode) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/tool"} }

// DecodeSpec decodes the settings and checks what they mean.
func (r *runConfigNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.node = n
	ds := spec.Decode(n, &r.config)
	if !ds.HasErrors() {
		ds = append(ds, r.config.Check(n)...)
	}
	return ds
}

// SchemaSpec refers to the definition.
func (r *runConfigNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/run_config"}
}

func keep(n *spec.Node, into **spec.Node, what string) spec.Diagnostics {
	*into = n
	if n.Kind != spec.Mapping {
		return spec.Diagnostics{n.Errorf("type", "%s is a mapping with its settings", what)}
	}
	return nil
}

// runConfig is the app's, or nil where nothing is said.
func (d *document) runConfig() *runtime.RunConfig {
	if d.RunConfig == nil {
		return nil
	}
	return &d.RunConfig.config
}

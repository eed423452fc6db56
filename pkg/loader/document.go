package loader

import (
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A document is app.yaml: what an app is beside its agents' files.
type document struct {
	Name        spec.Text      `yaml:"name" doc:"The app's name. It is that of its folder, so this may only repeat it."`
	Description string         `yaml:"description" doc:"What the app is for."`
	RootAgent   *rootRef       `yaml:"root_agent" doc:"The agent at the top: a file (root_agent.yaml when nothing is said), or the agent written out."`
	Include     []spec.Text    `yaml:"include" doc:"Files with models, tools, functions, schemas, agents and defaults that belong to the app too: of the app, or beside its folder (../NAME.yaml)."`
	Parts       parts          `yaml:",inline"`
	RunConfig   *runConfigNode `yaml:"run_config" doc:"How invocations run."`
	Plugins     []pluginRef    `yaml:"plugins" doc:"What takes part in every run, in this order: names, or names with their settings."`

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

// runConfigNode is the settings of runs, and where they stand.
type runConfigNode struct {
	node   *spec.Node
	config runtime.RunConfig
}

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

// runConfig is the app's, or nil where nothing is said.
func (d *document) runConfig() *runtime.RunConfig {
	if d.RunConfig == nil {
		return nil
	}
	return &d.RunConfig.config
}

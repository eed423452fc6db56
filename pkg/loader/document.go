package loader

import (
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A document is app.yaml: the settings of an app apart from its agents' files.
type document struct {
	Name        spec.Text      `yaml:"name" doc:"The app's name. It must match the name of the folder."`
	Description string         `yaml:"description" doc:"Description of the app."`
	RootAgent   *rootRef       `yaml:"root_agent" doc:"The root agent: a file (default root_agent.yaml), or the agent inline."`
	Include     []spec.Text    `yaml:"include" doc:"Files with further models, tools, functions, schemas, agents and defaults of the app: in its folder, or next to it (../NAME.yaml)."`
	Parts       parts          `yaml:",inline"`
	RunConfig   *runConfigNode `yaml:"run_config" doc:"Settings of invocations."`
	Plugins     []pluginRef    `yaml:"plugins" doc:"Plugins of every run, in this order: names, or names with their settings."`

	ContextCache *runtime.ContextCacheConfig `yaml:"context_cache_config" doc:"Context caching: models cache the beginning of a conversation, so that it is not sent and paid for again with each request."`
	Resumability *runtime.ResumabilityConfig `yaml:"resumability_config" doc:"Whether interrupted or waiting invocations can be resumed."`
	Compaction   *compactionNode             `yaml:"events_compaction_config" doc:"When to replace the older events of a session with a summary."`
	Reload       *runtime.ReloadConfig       `yaml:"reload" doc:"How changes of the app's files take effect while it runs."`
	Retention    spec.Duration               `yaml:"retention" doc:"How long to keep a session after its last event, such as 30d; then serve deletes it and its artifacts. By default sessions are not deleted."`
}

// rootRef is the root agent: a file, or the agent inline.
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

// SchemaSpec describes both forms.
func (r *rootRef) SchemaSpec() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{"$ref": "#/$defs/agent"},
	}}
}

// runConfigNode is run_config with its position.
type runConfigNode struct {
	node   *spec.Node
	config runtime.RunConfig
}

// DecodeSpec decodes and validates the settings.
func (r *runConfigNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.node = n
	ds := spec.Decode(n, &r.config)
	if !ds.HasErrors() {
		ds = append(ds, r.config.Check(n)...)
	}
	return ds
}

// SchemaSpec references the definition.
func (r *runConfigNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/run_config"}
}

// runConfig returns the app's setting, or nil.
func (d *document) runConfig() *runtime.RunConfig {
	if d.RunConfig == nil {
		return nil
	}
	return &d.RunConfig.config
}

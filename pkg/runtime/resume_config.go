package runtime

import "agenthost/pkg/spec"

// A ResumabilityConfig configures whether invocations can be resumed:
// resumability_config in app.yaml or of the root agent (adk-python apps/app.py
// ResumabilityConfig). Both fields mean the same.
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
	return map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{
			"is_resumable":        map[string]any{"type": "boolean"},
			"enable_resumability": map[string]any{"type": "boolean"},
		},
	}
}

// Resumable reports whether either field is true; it is false for nil.
func (c *ResumabilityConfig) Resumable() bool {
	return c != nil && (c.IsResumable || c.EnableResumability)
}

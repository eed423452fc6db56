package loader

import (
	"context"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// compactionNode is events_compaction_config with its position.
type compactionNode struct {
	node   *spec.Node
	config runtime.CompactionConfig
}

// DecodeSpec decodes and validates the settings.
func (c *compactionNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	c.node = n
	ds := spec.Decode(n, &c.config)
	if !ds.HasErrors() {
		ds = append(ds, c.config.Check(n)...)
	}
	return ds
}

// SchemaSpec references the definition.
func (c *compactionNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/events_compaction_config"}
}

// compactionConfig returns the app's setting, or nil.
func (d *document) compactionConfig() *runtime.CompactionConfig {
	if d.Compaction == nil {
		return nil
	}
	return &d.Compaction.config
}

// resolveCompaction finds the model that writes summaries: the configured one, or
// that of the root agent, which must then be an LLM agent.
func (j *job) resolveCompaction(ctx context.Context, root *resolvedAgent) {
	c := j.doc.Compaction
	if c == nil {
		return
	}
	if name := c.config.Summarizer.Model; name.Value != "" {
		j.summarizer = j.resolveModel(ctx, name)
		return
	}
	if root == nil {
		return
	}
	if _, asks := root.plan.Config.(interface{ ModelName() spec.Text }); !asks {
		j.report(c.node.Errorf("compaction", "the root agent %s has no model for summaries", root.name).
			WithHint("set summarizer: {model: NAME}"))
	}
}

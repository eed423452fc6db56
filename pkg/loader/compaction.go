package loader

import (
	"context"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// compactionNode is events_compaction_config with its place.
type compactionNode struct {
	node   *spec.Node
	config runtime.CompactionConfig
}

// DecodeSpec decodes the settings and checks what they mean.
func (c *compactionNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	c.node = n
	ds := spec.Decode(n, &c.config)
	if !ds.HasErrors() {
		ds = append(ds, c.config.Check(n)...)
	}
	return ds
}

// SchemaSpec refers to the definition.
func (c *compactionNode) SchemaSpec() map[string]any {
	return map[string]any{"$ref": "#/$defs/events_compaction_config"}
}

// compactionConfig is the app's, or nil where nothing is said.
func (d *document) compactionConfig() *runtime.CompactionConfig {
	if d.Compaction == nil {
		return nil
	}
	return &d.Compaction.config
}

// resolveCompaction finds the model that writes summaries. Without a name it is
// the root agent's, which must then be one that asks a model.
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
		j.report(c.node.Errorf("compaction", "the root agent %s asks no model that could summarise", root.name).
			WithHint("name one: summarizer: {model: NAME}"))
	}
}

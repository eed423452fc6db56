package loader

import (
	"context"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// pluginRef is a plugin of the app: its name, with optional settings.
type pluginRef struct {
	name   *spec.Node
	config *spec.Node
}

// DecodeSpec accepts both forms.
func (p *pluginRef) DecodeSpec(n *spec.Node) spec.Diagnostics {
	switch {
	case n.Kind == spec.Scalar && !n.IsNull():
		p.name = n
	case n.Kind == spec.Mapping && len(n.Entries) == 1:
		p.name, p.config = n.Entries[0].Key, n.Entries[0].Value
	default:
		return spec.Diagnostics{n.Errorf("type", "a plugin must be a name, or a mapping of one name to its settings, such as context_filter: {…}")}
	}
	if p.config.IsNull() {
		empty := *n
		empty.Kind, empty.Tag, empty.Value, empty.Entries = spec.Mapping, "!!map", "", nil
		p.config = &empty
	}
	return nil
}

// SchemaSpec refers to the definition.
func (p *pluginRef) SchemaSpec() map[string]any { return map[string]any{"$ref": "#/$defs/plugin"} }

// buildPlugins builds the plugins of app.yaml and reports all problems of their
// settings.
func (j *job) buildPlugins(ctx context.Context) {
	seen := map[string]bool{}
	for _, ref := range j.doc.Plugins {
		if ref.name == nil {
			continue // already reported when app.yaml was decoded
		}
		kind, ok := j.loader.plugins.Lookup(ref.name.Value)
		if !ok {
			j.report(unknownNameError(ref.name, "plugin %s", ref.name.Value, j.loader.plugins.Names()))
			continue
		}
		if seen[kind.Name] {
			j.report(ref.name.Errorf("duplicate-name", "duplicate plugin %s", kind.Name))
		}
		seen[kind.Name] = true
		if p := j.buildPlugin(ctx, kind, ref.config); p != nil {
			j.plugins = append(j.plugins, p)
		}
	}
}

func (j *job) buildPlugin(ctx context.Context, kind spec.Kind[runtime.PluginEnv, *runtime.Plugin], n *spec.Node) *runtime.Plugin {
	plan, ds := kind.Decode(n)
	ds = append(ds, j.bindFunctions(plan.Config)...)
	j.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	p, err := plan.Build(ctx, runtime.PluginEnv{Logger: j.loader.opts.Logger})
	if err != nil {
		j.reportBuildError(n, "build", err)
		return nil
	}
	return p
}

// pluginSchema returns the schema of a plugin: a name, or a mapping of one name to its
// settings.
func (l *Loader) pluginSchema(set *spec.SchemaSet) map[string]any {
	var names []any
	for _, name := range l.plugins.Names() {
		names = append(names, name)
	}
	all := []any{map[string]any{"enum": names}}
	for _, k := range l.plugins {
		all = append(all, newObjectSchema(k.Name, setDescription(set.Object(k.ConfigType()), k.Doc)))
	}
	return anyOfSchema(all)
}

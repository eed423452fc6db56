package loader

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// An Outline lists the names that the documents of an app declare, for editors. If the
// app has errors, the outline may be incomplete.
type Outline struct {
	// Agents, Tools and Models are sorted by name.
	Agents, Tools, Models []Symbol
	// State are the state keys that the documents write or declare.
	State []string
	// Documents are the parsed files, by their paths in the app.
	Documents map[string]*spec.Node
}

// A Symbol is a named declaration.
type Symbol struct {
	Name string
	// Doc is its description.
	Doc string
	// Pos is the position of the declaration.
	Pos spec.Pos
}

// Outline reads the folder of an app, with its tests, for editors. The diagnostics are
// those of [Loader.Check].
func (l *Loader) Outline(ctx context.Context, dir string) (*Outline, spec.Diagnostics) {
	var o *Outline
	got := l.loadApp(ctx, dir, nil, func(j *job, ctx context.Context, root *resolvedAgent) *Suite {
		s := j.readTests(ctx, root)
		o = j.buildOutline(ctx, root)
		return s
	})
	if got.app != nil {
		got.app.Close()
	}
	if o == nil {
		o = &Outline{}
	}
	return o, got.ds
}

func (j *job) buildOutline(ctx context.Context, root *resolvedAgent) *Outline {
	agents, tools, models := map[string]Symbol{}, map[string]Symbol{}, map[string]Symbol{}
	for name, p := range j.names.agents {
		agents[name] = newSymbol(name, p.node)
	}
	for name, p := range j.names.tools {
		tools[name] = newSymbol(name, p.node)
	}
	for name, p := range j.names.models {
		models[name] = newSymbol(name, p.node)
	}
	if root != nil {
		root.visitTree(func(p *resolvedAgent) {
			agents[p.name] = newSymbol(p.name, p.plan.Node)
			for _, t := range p.tools {
				for _, name := range t.listToolNames(ctx) {
					if _, known := tools[name]; !known && t.node != nil {
						tools[name] = newSymbol(name, t.node)
					}
				}
			}
		})
	}
	return &Outline{
		Agents: sortSymbols(agents), Tools: sortSymbols(tools), Models: sortSymbols(models),
		State: collectStateKeys(j.src.documents), Documents: j.src.documents,
	}
}

func newSymbol(name string, n *spec.Node) Symbol {
	d := Symbol{Name: name, Pos: n.Pos}
	for _, key := range []string{"description", "provider", "model"} {
		if at := n.Get(key); at != nil && at.Kind == spec.Scalar {
			d.Doc = cmp.Or(d.Doc, at.Value)
		}
	}
	return d
}

func sortSymbols(all map[string]Symbol) []Symbol {
	return slices.SortedFunc(maps.Values(all), func(a, b Symbol) int { return cmp.Compare(a.Name, b.Name) })
}

// collectStateKeys returns the keys under output_key, under state_schema, and under the
// verbs that write state.
func collectStateKeys(documents map[string]*spec.Node) []string {
	var keys []string
	var walk func(n *spec.Node)
	walk = func(n *spec.Node) {
		for _, e := range n.Entries {
			switch {
			case e.Key.Value == "output_key" && e.Value.Kind == spec.Scalar && !e.Value.IsNull():
				keys = append(keys, e.Value.Value)
			case slices.Contains(tool.WriteVerbs(), e.Key.Value) || e.Key.Value == "state_schema":
				schema := e.Value
				if properties := schema.Get("properties"); properties != nil {
					schema = properties
				}
				keys = append(keys, schema.Keys()...)
			}
			walk(e.Value)
		}
		for _, item := range n.Items {
			walk(item)
		}
	}
	for _, n := range documents {
		walk(n)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

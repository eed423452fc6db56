package loader

import (
	"context"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// An Effective app is what its files come to.
type EffectiveApp struct {
	// Document is app.yaml as it counts: overlay, includes and values are in it,
	// and the whole tree of agents, with their defaults and schemas, stands under
	// root_agent. Each node has the place where it was written. It is printed by
	// [spec.Print], which hides secrets.
	Document *spec.Node
	// Files are all that were read, and Values the variables and secrets that
	// were asked for, such as "env MODEL"; sorted.
	Files, Values []string
	// Revision is that of the app that would be built.
	Revision string
}

// ResolveEffective puts an app's files together. With an error among the problems
// there is none.
func (l *Loader) ResolveEffective(ctx context.Context, dir string) (*EffectiveApp, spec.Diagnostics) {
	var e *EffectiveApp
	ds := l.inspectApp(ctx, dir, func(j *job, root *resolvedAgent) {
		e = &EffectiveApp{
			Document: j.buildEffectiveDocument(root), Revision: j.src.computeRevision(),
			Files: slices.Sorted(maps.Keys(j.src.readFiles)), Values: slices.Sorted(maps.Keys(j.src.usedValues)),
		}
	})
	return e, ds
}

// inspectApp resolves an app and shows it, when nothing is wrong with it, before
// it is closed again.
func (l *Loader) inspectApp(ctx context.Context, dir string, look func(j *job, root *resolvedAgent)) spec.Diagnostics {
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return ds
	}
	defer src.close()
	j := newJob(l, src)
	if root := j.resolveApp(ctx); root != nil && !j.ds.HasErrors() {
		look(j, root)
	}
	j.closeResources()
	return j.collectProblems()
}

// buildEffectiveDocument is app.yaml without what was taken into the agents.
func (j *job) buildEffectiveDocument(root *resolvedAgent) *spec.Node {
	doc := &spec.Node{Kind: spec.Mapping, Tag: "!!map"}
	if j.appNode != nil {
		*doc = *j.appNode
	}
	parts := []string{"include", "models", "agents", "tools", "functions", "schemas", "defaults", "root_agent"}
	doc.Entries = slices.DeleteFunc(slices.Clone(doc.Entries), func(e spec.Entry) bool { return slices.Contains(parts, e.Key.Value) })
	for _, s := range []partTable{{"models", j.names.models}, {"tools", j.names.tools}, {"functions", j.names.functions}, {"schemas", j.names.schemas}} {
		section := &spec.Node{Kind: spec.Mapping, Tag: "!!map"}
		for name, p := range sortedParts(s.parts) {
			if !p.shared || j.used[p.node] {
				section.Entries = append(section.Entries, spec.Entry{Key: newScalar(name), Value: p.node})
			}
		}
		if len(section.Entries) > 0 {
			doc.Entries = append(doc.Entries, spec.Entry{Key: newScalar(s.label), Value: section})
		}
	}
	doc.Entries = append(doc.Entries, spec.Entry{Key: newScalar("root_agent"), Value: root.expandRefs()})
	return doc
}

// newScalar is a text that was written nowhere.
func newScalar(text string) *spec.Node {
	return &spec.Node{Kind: spec.Scalar, Tag: "!!str", Value: text}
}

// expandRefs is the agent's mapping with those below it written out in the place of
// their references.
func (p *resolvedAgent) expandRefs() *spec.Node {
	at := map[*spec.Node]*resolvedAgent{}
	for _, sub := range p.subs {
		at[sub.at] = sub
	}
	for _, t := range p.tools {
		if t.agent != nil {
			at[t.agent.at] = t.agent
		}
	}
	return expandNode(p.plan.Node, at)
}

func expandNode(n *spec.Node, at map[*spec.Node]*resolvedAgent) *spec.Node {
	if sub := at[n]; sub != nil && n.Kind == spec.Mapping {
		return sub.expandRefs()
	}
	if n.Kind == spec.Scalar {
		return n
	}
	out := *n
	out.Entries, out.Items = nil, nil
	for _, e := range n.Entries {
		out.Entries = append(out.Entries, spec.Entry{Key: e.Key, Value: expandNode(e.Value, at)})
	}
	for _, item := range n.Items {
		out.Items = append(out.Items, expandNode(item, at))
	}
	return &out
}

// isCodeName says whether a name is one of code, and not of a kind.
func isCodeName(name string) bool { return strings.Contains(name, ".") }

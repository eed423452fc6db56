package loader

import (
	"context"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// An EffectiveApp is the effective configuration of an app.
type EffectiveApp struct {
	// Document is the effective app.yaml, with overlay, includes and values. root_agent
	// contains the whole agent tree with defaults and schemas. Each node has the
	// position where it was written. [spec.Print] prints it without secrets.
	Document *spec.Node
	// Files are all files that were read. Values are the variables and secrets that were
	// read, such as "env MODEL". Both are sorted.
	Files, Values []string
	// Revision is the revision of the app.
	Revision string
}

// ResolveEffective returns the effective configuration of an app, or nil if there are errors.
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

// inspectApp resolves an app, calls look if there are no errors, and closes the app.
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

// buildEffectiveDocument returns app.yaml without the declarations that are merged into
// the agents.
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

// newScalar returns a scalar without a position.
func newScalar(text string) *spec.Node {
	return &spec.Node{Kind: spec.Scalar, Tag: "!!str", Value: text}
}

// expandRefs returns the agent's mapping with its references replaced by the agents.
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

// isCodeName reports whether a name refers to code, not to a kind.
func isCodeName(name string) bool { return strings.Contains(name, ".") }

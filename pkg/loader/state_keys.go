package loader

import (
	"cmp"
	"maps"
	"slices"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A StateKey is a state key that an app's documents write, declare or read.
type StateKey struct {
	Name string
	// Type is the type in a state schema, or the one that follows from what writes the key; "" if it
	// is unknown.
	Type string
	// Doc is its description in the state schema.
	Doc string
	// Default is its default in the state schema, or "".
	Default string
	// Written reports that a document writes or declares the key.
	Written bool
}

// collectStateKeys returns the state keys in documents, and those that the agents in the tree read.
func collectStateKeys(documents map[string]*spec.Node, root *resolvedAgent) []StateKey {
	keys := map[string]StateKey{}
	add := func(k StateKey) {
		if known, ok := keys[k.Name]; ok {
			k.Type, k.Doc, k.Default = cmp.Or(known.Type, k.Type), cmp.Or(known.Doc, k.Doc), cmp.Or(known.Default, k.Default)
			k.Written = known.Written || k.Written
		}
		keys[k.Name] = k
	}
	var walk func(n *spec.Node)
	walk = func(n *spec.Node) {
		for _, e := range n.Entries {
			switch key := e.Key.Value; {
			case key == "output_key" && e.Value.Kind == spec.Scalar && !e.Value.IsNull():
				written := StateKey{Name: e.Value.Value, Type: "string", Written: true}
				if n.Get("output_schema") != nil || n.Get("instruction") == nil {
					written.Type = ""
				}
				add(written)
			case slices.Contains(toolconfig.WriteVerbs(), key):
				for _, name := range e.Value.Keys() {
					add(StateKey{Name: name, Type: writtenType(key), Written: true})
				}
			case key == "state_schema":
				for _, k := range declaredKeys(e.Value) {
					add(k)
				}
			}
			walk(e.Value)
		}
		for _, item := range n.Items {
			walk(item)
		}
	}
	for _, file := range slices.Sorted(maps.Keys(documents)) {
		walk(documents[file])
	}
	if root != nil {
		root.visitTree(func(p *resolvedAgent) {
			uses := p.cachedStateUse()
			for _, t := range p.tools {
				uses.Add(t.collectStateUse())
			}
			for _, t := range uses.Texts {
				for _, ref := range t.Refs {
					add(StateKey{Name: ref.Name})
				}
			}
			for _, e := range uses.Exprs {
				for _, m := range template.UsesOf(e.Expr.Value, "state").Members {
					add(StateKey{Name: m.Name})
				}
			}
		})
	}
	return slices.SortedFunc(maps.Values(keys), func(a, b StateKey) int { return cmp.Compare(a.Name, b.Name) })
}

// writtenType returns the type that a write implies, or "".
func writtenType(verb string) string {
	switch session.UpdateVerb(verb) {
	case session.UpdateAdd:
		return "number"
	case session.UpdateAppend:
		return "list"
	default:
		return ""
	}
}

// declaredKeys returns the keys in a state schema with their types as they are written.
func declaredKeys(schema *spec.Node) []StateKey {
	if properties := schema.Get("properties"); properties != nil && properties.Kind == spec.Mapping {
		schema = properties
	}
	var keys []StateKey
	for _, e := range schema.Entries {
		k := StateKey{Name: e.Key.Value, Written: true, Type: DescribeType(e.Value)}
		if doc := e.Value.Get("description"); doc != nil {
			k.Doc = doc.Value
		}
		if value := e.Value.Get("default"); value != nil {
			k.Default = value.RedactedValue()
		}
		keys = append(keys, k)
	}
	return keys
}

// DescribeType returns a short text for a field's type in a short schema, such as string?, [string]
// or "gold or free", or "" for any type.
func DescribeType(n *spec.Node) string {
	switch {
	case n.Kind == spec.Scalar:
		return n.Value
	case n.Kind == spec.Sequence && len(n.Items) == 1:
		return "[" + DescribeType(n.Items[0]) + "]"
	}
	if enum := n.Get("enum"); enum != nil && len(enum.Items) > 0 && len(enum.Items) <= 6 {
		text := ""
		for i, item := range enum.Items {
			switch {
			case i == 0:
			case i == len(enum.Items)-1:
				text += " or "
			default:
				text += ", "
			}
			text += item.Value
		}
		return text
	}
	if t := n.Get("type"); t != nil && t.Kind == spec.Scalar {
		return t.Value
	}
	if n.Get("writable") != nil {
		return ""
	}
	return "object"
}

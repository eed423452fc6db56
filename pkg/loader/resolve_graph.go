package loader

import (
	"path"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// inlineCode replaces ADK's code keys: X_code sets the field X to code (adk-python 2.9
// agents/config_agent_utils.py). A schema that functions: maps becomes the field's value; other
// code is reported, and its key dropped.
func (r *resolver) inlineCode(n *spec.Node, kind spec.Kind[agentconfig.AgentEnv, runtime.Agent]) *spec.Node {
	if !slices.ContainsFunc(n.Entries, func(e spec.Entry) bool { return strings.HasSuffix(e.Key.Value, "_code") }) {
		return n
	}
	var fields []string
	for _, f := range spec.Fields(kind.ConfigType()) {
		fields = append(fields, f.Name)
	}
	coded := func(e spec.Entry) (field string, ok bool) {
		field, ok = strings.CutSuffix(e.Key.Value, "_code")
		return field, ok && slices.Contains(fields, field) && !slices.Contains(fields, e.Key.Value)
	}
	for _, e := range n.Entries {
		field, ok := coded(e)
		if !ok {
			continue
		}
		value := e.Value
		if n.Get(field) != nil {
			r.report(e.Key.Errorf("code", "%s and %s are mutually exclusive", field, e.Key.Value))
			value = nil
		} else if !strings.HasSuffix(field, "_schema") || agentconfig.CodeRef(value) == nil {
			name := value.Get("name")
			if value.Kind == spec.Scalar {
				name = value
			}
			if name.IsNull() {
				name = e.Key
			}
			r.report(value.Errorf("code", "%s %s is code that this host does not have", field, name.Value).WithHint("write the value in %s", field))
			value = nil
		}
		n = r.renameKey(n, e.Key, field, value)
	}
	return n
}

// renameKey returns a copy of a mapping with another name for a key, or without the key if the
// value is nil.
func (r *resolver) renameKey(n, key *spec.Node, name string, value *spec.Node) *spec.Node {
	return getOrMake(r.src.cache, composedKey{n, key.Value, key}, func() (*spec.Node, bool) {
		changed := *n
		changed.Entries = nil
		for _, e := range n.Entries {
			switch {
			case e.Key != key:
				changed.Entries = append(changed.Entries, e)
			case value != nil:
				renamed := *key
				renamed.Value = name
				changed.Entries = append(changed.Entries, spec.Entry{Key: &renamed, Value: value})
			}
		}
		return &changed, true
	})
}

// nameFileNodes replaces node names in a workflow's edges that are agents from files: an edge may
// refer to an earlier edge's node by the name in its file. Names under agents take precedence.
func (r *resolver) nameFileNodes(n *spec.Node, t ancestry) *spec.Node {
	edges := n.Get("edges")
	if edges == nil || edges.Kind != spec.Sequence {
		return n
	}
	names := &fileNames{r: r, folder: path.Dir(t.file), files: map[string]*spec.Node{}}
	if changed := names.replaceNodes(edges); changed != edges {
		return replaceKey(n, "edges", changed)
	}
	return n
}

// fileNames has the agent names in the files of earlier edges.
type fileNames struct {
	r      *resolver
	folder string
	files  map[string]*spec.Node
}

// replaceNodes returns an edges element with the files for named nodes.
func (f *fileNames) replaceNodes(n *spec.Node) *spec.Node {
	changed := *n
	switch n.Kind {
	case spec.Sequence:
		changed.Items = slices.Clone(n.Items)
		for i, item := range n.Items {
			changed.Items[i] = f.replaceNodes(item)
		}
		if !slices.Equal(changed.Items, n.Items) {
			return &changed
		}
	case spec.Mapping:
		if n.Get("agent_class") != nil || n.Get("instruction") != nil {
			return n // an inline agent
		}
		changed.Entries = slices.Clone(n.Entries)
		for i, e := range n.Entries {
			if e.Key.Value != "route" {
				changed.Entries[i].Value = f.replaceNodes(e.Value)
			}
		}
		if !slices.Equal(changed.Entries, n.Entries) {
			return &changed
		}
	case spec.Scalar:
		return f.replaceName(n)
	}
	return n
}

// replaceName returns a named node's file. It notes the name in a file.
func (f *fileNames) replaceName(n *spec.Node) *spec.Node {
	if !strings.HasSuffix(n.Value, ".yaml") && !strings.HasSuffix(n.Value, ".yml") {
		if file := f.files[n.Value]; file != nil && f.r.app.names.agents[n.Value].node == nil {
			written := *n
			written.Value = file.Value
			return &written
		}
		return n
	}
	file := path.Join(f.folder, path.Clean(n.Value))
	if escapesFolder(n.Value) || !f.r.src.fileExists(file) {
		return n // reported when the node is resolved
	}
	if agent, _ := f.r.src.readDocument(file); agent != nil {
		if name := agent.Get("name"); !name.IsNull() && f.files[name.Value] == nil {
			f.files[name.Value] = n
		}
	}
	return n
}

package loader

import (
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// inlineNames replaces the names of schemas and callbacks in an agent's mapping with
// their definitions. Every node keeps its position.
func (j *job) inlineNames(n *spec.Node) *spec.Node {
	for _, key := range []string{"output_schema", "input_schema", "state_schema"} {
		n = j.inlineSchema(n, key)
	}
	return j.inlineCallbacks(n)
}

// applyDefaults adds the default values of the keys that the agent does not set.
func (j *job) applyDefaults(n *spec.Node, class string) *spec.Node {
	p, ok := j.names.defaults[class]
	if !ok {
		return n
	}
	j.markUsed(p)
	return getOrMake(j.src.cache, composedKey{n, "", p.node}, func() (*spec.Node, bool) {
		with := *n
		with.Entries = slices.Clone(n.Entries)
		for _, e := range p.node.Entries {
			if n.Get(e.Key.Value) == nil {
				with.Entries = append(with.Entries, e)
			}
		}
		return &with, true
	})
}

// composedKey identifies a mapping derived from another one: with a new value for a
// key, or with a mapping of defaults.
type composedKey struct {
	of    *spec.Node
	key   string
	value *spec.Node
}

// replaceKeyCached is replaceKey that returns the same node for the same value, so
// that caches find it again.
func (j *job) replaceKeyCached(n *spec.Node, key string, value *spec.Node) *spec.Node {
	if n.Get(key) == value {
		return n
	}
	return getOrMake(j.src.cache, composedKey{n, key, value}, func() (*spec.Node, bool) { return replaceKey(n, key, value), true })
}

// checkDefaults checks the classes and keys of defaults.
func (j *job) checkDefaults() {
	own := []string{"name", "agent_class", "sub_agents", "instruction", "instruction_provider"}
	for class, d := range sortedParts(j.names.defaults) {
		if d.shared {
			j.markUsed(d)
		}
		kind, ok := j.loader.agentKinds.Lookup(class)
		if !ok {
			j.report(unknownNameError(d.node, "agent class %s", class, j.loader.agentKinds.Names()))
			continue
		}
		for _, e := range d.node.Entries {
			if slices.Contains(own, e.Key.Value) {
				j.report(e.Key.Errorf("defaults", "%s cannot have a default: it is specific to each agent", e.Key.Value))
			}
		}
		j.report(kind.CheckKeys(d.node)...)
	}
}

// inlineSchema replaces the name of a schema, or of a code class that functions: maps
// to a schema, with the schema.
func (j *job) inlineSchema(n *spec.Node, key string) *spec.Node {
	at := n.Get(key)
	if at.IsNull() {
		return n
	}
	schema := at
	if ref := runtime.CodeRef(at); ref != nil {
		if f, ok := j.findFunction(ref.Value); ok {
			schema = f.node
		}
	}
	schema, ds := spec.ResolveSchemaNames(schema, func(name string) *spec.Node {
		s, ok := j.names.schemas[name]
		if ok {
			j.markUsed(s)
		}
		return s.node
	})
	j.report(ds...)
	return j.replaceKeyCached(n, key, schema)
}

// replaceKey returns a copy of a mapping with another value for a key.
func replaceKey(n *spec.Node, key string, value *spec.Node) *spec.Node {
	changed := *n
	changed.Entries = slices.Clone(n.Entries)
	for i, e := range changed.Entries {
		if e.Key.Value == key {
			changed.Entries[i].Value = value
		}
	}
	return &changed
}

// checkSchemas checks all declared schemas, used or not.
func (j *job) checkSchemas() {
	for name, s := range sortedParts(j.names.schemas) {
		if s.shared {
			continue // checked where it is used
		}
		if isTypeName(name) {
			j.report(s.node.Errorf("clash", "schema %s must not have the name of a type", name))
			continue
		}
		schema, ds := spec.ResolveSchemaNames(s.node, func(name string) *spec.Node { return j.names.schemas[name].node })
		j.report(ds...)
		if !ds.HasErrors() {
			j.report((&spec.ValueSchema{}).DecodeSpec(schema)...)
		}
	}
}

func isTypeName(name string) bool {
	return slices.Contains([]string{"string", "integer", "number", "boolean", "object", "any"}, name)
}

// inlineCallbacks replaces names of callbacks with their rules from functions. A
// registered Go function of the name takes precedence.
func (j *job) inlineCallbacks(n *spec.Node) *spec.Node {
	for _, e := range n.Entries {
		if strings.HasSuffix(e.Key.Value, "_callbacks") && e.Value.Kind == spec.Sequence {
			n = j.replaceKeyCached(n, e.Key.Value, j.inlineRules(e.Value))
		}
	}
	return n
}

func (j *job) inlineRules(list *spec.Node) *spec.Node {
	all := *list
	all.Items = nil
	for _, item := range list.Items {
		item = j.stripCodeArgs(item)
		name := item.Get("name")
		f, ok := part{}, false
		if name != nil && len(item.Entries) == 1 {
			if _, registered := j.loader.opts.Functions.Callbacks[name.Value]; !registered {
				f, ok = j.findFunction(name.Value)
			}
		}
		switch {
		case !ok:
			all.Items = append(all.Items, item)
		case f.node.Kind == spec.Sequence:
			all.Items = append(all.Items, f.node.Items...)
		default:
			all.Items = append(all.Items, f.node)
		}
	}
	if slices.Equal(all.Items, list.Items) {
		return list
	}
	return &all
}

package loader

import (
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// inlineNames replaces the names of schemas and callbacks in an agent's mapping with
// their definitions. Every node keeps its position.
func (r *resolver) inlineNames(n *spec.Node) *spec.Node {
	for _, key := range []string{"output_schema", "input_schema", "state_schema"} {
		n = r.inlineSchema(n, key)
	}
	return r.inlineCallbacks(n)
}

// applyDefaults adds the default values of the keys that the agent does not set.
func (r *resolver) applyDefaults(n *spec.Node, class string) *spec.Node {
	p, ok := r.app.names.defaults[class]
	if !ok {
		return n
	}
	r.markUsed(p)
	return getOrMake(r.src.cache, composedKey{n, "", p.node}, func() (*spec.Node, bool) {
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
func (r *resolver) replaceKeyCached(n *spec.Node, key string, value *spec.Node) *spec.Node {
	if n.Get(key) == value {
		return n
	}
	return getOrMake(r.src.cache, composedKey{n, key, value}, func() (*spec.Node, bool) { return replaceKey(n, key, value), true })
}

// checkDefaults checks the classes and keys of defaults.
func (r *resolver) checkDefaults() {
	own := []string{"name", "agent_class", "sub_agents", "instruction", "instruction_provider"}
	for class, d := range sortedParts(r.app.names.defaults) {
		if d.shared {
			r.markUsed(d)
		}
		kind, ok := r.loader.agentKinds.Lookup(class)
		if !ok {
			r.report(unknownNameError(d.node, "agent class %s", class, r.loader.agentKinds.Names()))
			continue
		}
		for _, e := range d.node.Entries {
			if slices.Contains(own, e.Key.Value) {
				r.report(e.Key.Errorf("defaults", "%s cannot have a default: it is specific to each agent", e.Key.Value))
			}
		}
		r.report(kind.CheckKeys(d.node)...)
	}
}

// inlineSchema replaces the name of a schema, or of a code class that functions: maps
// to a schema, with the schema.
func (r *resolver) inlineSchema(n *spec.Node, key string) *spec.Node {
	at := n.Get(key)
	if at.IsNull() {
		return n
	}
	schema := at
	if ref := runtime.CodeRef(at); ref != nil {
		if f, ok := r.findFunction(ref.Value); ok {
			schema = f.node
		}
	}
	schema, ds := spec.ResolveSchemaNames(schema, func(name string) *spec.Node {
		s, ok := r.app.names.schemas[name]
		if ok {
			r.markUsed(s)
		}
		return s.node
	})
	r.report(ds...)
	return r.replaceKeyCached(n, key, schema)
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
func (r *resolver) checkSchemas() {
	for name, s := range sortedParts(r.app.names.schemas) {
		if s.shared {
			continue // checked where it is used
		}
		if isTypeName(name) {
			r.report(s.node.Errorf("clash", "schema %s must not have the name of a type", name))
			continue
		}
		schema, ds := spec.ResolveSchemaNames(s.node, func(name string) *spec.Node { return r.app.names.schemas[name].node })
		r.report(ds...)
		if !ds.HasErrors() {
			r.report((&spec.ValueSchema{}).DecodeSpec(schema)...)
		}
	}
}

func isTypeName(name string) bool {
	return slices.Contains([]string{"string", "integer", "number", "boolean", "object", "any"}, name)
}

// inlineCallbacks replaces names of callbacks with their rules from functions. A
// registered Go function of the name takes precedence.
func (r *resolver) inlineCallbacks(n *spec.Node) *spec.Node {
	for _, e := range n.Entries {
		if strings.HasSuffix(e.Key.Value, "_callbacks") && e.Value.Kind == spec.Sequence {
			n = r.replaceKeyCached(n, e.Key.Value, r.inlineRules(e.Value))
		}
	}
	return n
}

func (r *resolver) inlineRules(list *spec.Node) *spec.Node {
	all := *list
	all.Items = nil
	for _, item := range list.Items {
		item = r.stripCodeArgs(item)
		name := item.Get("name")
		f, ok := part{}, false
		if name != nil && len(item.Entries) == 1 {
			if _, registered := r.loader.opts.Functions.Callbacks[name.Value]; !registered {
				f, ok = r.findFunction(name.Value)
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

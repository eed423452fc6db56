package loader

import (
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/spec"
)

// Documents are composed into one mapping per agent before the mapping is decoded:
//
//  1. app.yaml, the root agent's file and their includes declare named parts: models, agents,
//     tools, functions, schemas, connections, defaults. declareNamed registers their nodes by kind
//     and name; nothing is decoded yet.
//  2. When an agent is resolved, its mapping is composed: the agent that functions: maps its class
//     to (applyMappedClass), the defaults for its class (applyDefaults), ADK's code keys
//     (inlineCode), schemas and callbacks by name (inlineNames).
//  3. The agent class decodes the composed mapping.
//
// Decoded configs could be merged instead, but then each class would have to know includes,
// defaults and functions, and a merged value would have lost its place. A node keeps its position,
// so a problem in a default is reported where the default is written, once per place.
//
// Invariants:
//   - Composition never changes a node. It copies the mapping and shares the values. A copy that is
//     made from document nodes only is cached (composedKey), so the next load gets the same node.
//   - The agent's own key wins over its mapped class, and that over the defaults. A registered Go
//     callback wins over an entry in functions: with its name.
//   - A name is declared once in an app; a second declaration is an error with both positions.
//   - Each part that is used is marked (markUsed). For an included part this also expands its
//     references, so an app needs no variables for shared parts that it does not use.

// readAgentFile reads an agent's file and registers its declarations. It returns a nil
// node if the file does not contain an agent.
func (r *declarationReader) readAgentFile(file string, t ancestry, root bool) (*spec.Node, ancestry) {
	n, ds := r.src.readDocument(file)
	r.report(ds...)
	if n == nil {
		return nil, t
	}
	if n.Kind != spec.Mapping {
		r.report(n.Errorf("type", "the file does not contain an agent: an agent is a mapping with a name"))
		return nil, t
	}
	if r.reportForeignFile(n) {
		return nil, t
	}
	return r.extractParts(n, file, root), t.extendWith(file, file)
}

// extractParts registers the declarations in an agent's file, and returns the agent
// without them. Only the root agent's file may declare more than agents.
func (r *declarationReader) extractParts(n *spec.Node, file string, root bool) *spec.Node {
	if n.Get("agent_class") == nil && n.Get("name") == nil {
		return n
	}
	var some agentParts
	var all rootParts
	keys, into := []string{"agents"}, any(&some)
	if root {
		keys, into = []string{"include", "agents", "functions", "schemas", "defaults"}, &all
	}
	isPart := func(e spec.Entry) bool { return slices.Contains(keys, e.Key.Value) }
	if !slices.ContainsFunc(n.Entries, isPart) {
		return n
	}
	for _, e := range n.Entries {
		if isPart(e) {
			r.app.partKeys = append(r.app.partKeys, e.Key)
		}
	}
	rest, only := *n, *n
	rest.Entries = slices.DeleteFunc(slices.Clone(n.Entries), isPart)
	only.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return !isPart(e) })
	r.report(spec.Decode(&only, into)...)
	if !root {
		all.Agents = some.Agents
	}
	r.includeFiles(all.Include, file)
	r.declareParts(&parts{Agents: all.Agents, Functions: all.Functions, Schemas: all.Schemas, Defaults: all.Defaults}, part{file: file})
	return &rest
}

// includeFiles registers the declarations in included files.
func (r *declarationReader) includeFiles(files []spec.Text, from string) {
	for _, at := range files {
		file := path.Join(path.Dir(from), at.Value)
		switch {
		case r.included[file]:
		case path.IsAbs(at.Value) || strings.Contains(at.Value, "\\") || escapesFolder(file) && !isSharedFile(file):
			d := at.Errorf(0, "path", "include %s is outside of the app folder", at.Value).
				WithHint("an include must be an app file, or a file next to the app folder: ../NAME.yaml")
			r.report(addSlashHint(d, at.Value))
		case !r.src.fileExists(file):
			r.report(at.Errorf(0, "file", "%s", r.src.missingFileMessage(file)))
		default:
			r.included[file] = true
			r.includeFile(file)
		}
	}
}

func (r *declarationReader) includeFile(file string) {
	n, ds := r.src.parseFile(file)
	r.report(ds...)
	if n == nil || ds.HasErrors() {
		r.appBroken = true
		return
	}
	var p parts
	ds = spec.Decode(n, &p)
	r.report(ds...)
	r.appBroken = r.appBroken || ds.HasErrors()
	r.declareParts(&p, part{file: file, shared: true})
}

func (r *declarationReader) declareParts(p *parts, from part) {
	declareNamed(r, partTable{"model", r.app.names.models}, p.Models, from)
	declareNamed(r, partTable{"agent", r.app.names.agents}, p.Agents, from)
	declareNamed(r, partTable{"tool", r.app.names.tools}, p.Tools, from)
	declareNamed(r, partTable{"connection", r.app.names.connections}, p.Connections, from)
	declareNamed(r, partTable{"function", r.app.names.functions}, p.Functions, from)
	declareNamed(r, partTable{"schema", r.app.names.schemas}, p.Schemas, from)
	declareNamed(r, partTable{"default of", r.app.names.defaults}, p.Defaults, from)
}

// declareNamed registers a document's declarations. A duplicate name is an error with both
// positions.
func declareNamed[N partNode](r *declarationReader, into partTable, found map[string]N, from part) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n := found[name].yamlNode()
		old, taken := into.parts[name]
		switch {
		case n == nil || taken && old.node.Pos == n.Pos:
		case taken:
			r.report(n.Errorf("clash", "duplicate %s %s, first declared at %s", into.label, name, old.node.Pos))
		default:
			into.parts[name] = part{n, from.file, from.shared}
		}
	}
}

// inlineNames replaces schema and callback names in an agent's mapping with their definitions.
// Every node keeps its position.
func (r *declarationReader) inlineNames(n *spec.Node) *spec.Node {
	for _, key := range []string{"output_schema", "input_schema", "state_schema"} {
		n = r.inlineSchema(n, key)
	}
	for _, e := range n.Entries {
		if strings.HasSuffix(e.Key.Value, "_callbacks") && e.Value.Kind == spec.Sequence {
			n = r.replaceKeyCached(n, e.Key.Value, r.inlineRules(e.Value))
		}
	}
	return n
}

// applyDefaults adds the default values for keys that the agent does not set.
func (r *declarationReader) applyDefaults(n *spec.Node, class string) *spec.Node {
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
func (r *declarationReader) replaceKeyCached(n *spec.Node, key string, value *spec.Node) *spec.Node {
	if n.Get(key) == value {
		return n
	}
	return getOrMake(r.src.cache, composedKey{n, key, value}, func() (*spec.Node, bool) { return replaceKey(n, key, value), true })
}

// checkDefaults checks the classes and keys in defaults.
func (r *declarationReader) checkDefaults() {
	own := []string{"name", "agent_class", "sub_agents", "instruction", "instruction_provider"}
	for class, d := range sortedParts(r.app.names.defaults) {
		if d.shared {
			r.markUsed(d)
		}
		kind, ok := r.loader.kinds.Agents.Lookup(class)
		if !ok {
			r.report(unknownNameError(d.node, "agent class %s", class, r.loader.kinds.Agents.Names()))
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

// inlineSchema replaces a schema name, or a code class that functions: maps to a schema, with the
// schema.
func (r *declarationReader) inlineSchema(n *spec.Node, key string) *spec.Node {
	at := n.Get(key)
	if at.IsNull() {
		return n
	}
	schema := at
	if ref := agentconfig.CodeRef(at); ref != nil {
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
func (r *declarationReader) checkSchemas() {
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

// inlineRules replaces callback names in a list with their rules from functions. A registered Go
// function with the name takes precedence. Arguments of a name have no effect, and are reported.
func (r *declarationReader) inlineRules(list *spec.Node) *spec.Node {
	all := *list
	all.Items = nil
	for _, item := range list.Items {
		if ds := checkCodeArgs(item); len(ds) > 0 && item.Get("name") != nil {
			r.report(ds...)
			bare := *item
			bare.Entries = slices.DeleteFunc(slices.Clone(item.Entries), func(e spec.Entry) bool { return e.Key.Value == "args" || e.Key.Value == "params" })
			item = &bare
		}
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

// checkCodeArgs reports arguments for a code name. Python passes them to the code; a replacement in
// functions takes none.
func checkCodeArgs(ref *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, e := range ref.Entries {
		if key := e.Key.Value; key == "args" || key == "params" {
			ds = append(ds, e.Key.Errorf("code", "%s are not supported: entries under functions: take no arguments", key).
				WithHint("write the values into the entry under functions:"))
		}
	}
	return ds
}

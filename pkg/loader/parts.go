package loader

import (
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

// parts are the named declarations of a document. Names are global to the app.
type parts struct {
	Models    map[string]modelNode    `yaml:"models" doc:"Models by the names that agents use, each with its provider."`
	Agents    map[string]agentNode    `yaml:"agents" doc:"Agents by name, for {use: NAME}."`
	Tools     map[string]toolNode     `yaml:"tools" doc:"Tools by name, for {use: NAME}."`
	Functions map[string]functionNode `yaml:"functions" doc:"Replacements of names of code: a tool, a callback rule or a list of them, a schema, an agent, or a model."`
	Schemas   map[string]schemaNode   `yaml:"schemas" doc:"Schemas by name, for output_schema, input_schema, state_schema and params."`
	Defaults  map[string]defaultsNode `yaml:"defaults" doc:"Default values of agents, by class."`
}

// rootParts are the declarations that the root agent's file may contain next to the
// agent. models and tools have other meanings there.
type rootParts struct {
	Include   []spec.Text             `yaml:"include" doc:"At the top of the root agent's file: files with shared declarations."`
	Agents    map[string]agentNode    `yaml:"agents" doc:"At the top of a file: agents by name, for {use: NAME}."`
	Functions map[string]functionNode `yaml:"functions" doc:"At the top of the root agent's file: replacements of names of code."`
	Schemas   map[string]schemaNode   `yaml:"schemas" doc:"At the top of the root agent's file: schemas by name."`
	Defaults  map[string]defaultsNode `yaml:"defaults" doc:"At the top of the root agent's file: default values of agents, by class."`
}

// agentParts are the declarations that the file of any other agent may contain.
type agentParts struct {
	Agents map[string]agentNode `yaml:"agents" doc:"At the top of a file: agents by name, for {use: NAME}."`
}

// A part is a declaration: its node and its file.
type part struct {
	node *spec.Node
	file string
	// shared reports that the part comes from an include and may be unused.
	shared bool
}

// registry holds the declarations of an app by kind and name.
type registry struct {
	models, agents, tools, functions, schemas, defaults map[string]part
}

func newRegistry() registry {
	return registry{
		models: map[string]part{}, agents: map[string]part{}, tools: map[string]part{},
		functions: map[string]part{}, schemas: map[string]part{}, defaults: map[string]part{},
	}
}

// A partTable holds the declarations of one kind, and the label of the kind in
// messages.
type partTable struct {
	label string
	parts map[string]part
}

// partNode is the node of a declaration of any kind.
type partNode interface{ yamlNode() *spec.Node }

// declareNamed registers the declarations of a document. A duplicate name is an error
// with both positions.
func declareNamed[N partNode](j *job, into partTable, found map[string]N, from part) {
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n := found[name].yamlNode()
		old, taken := into.parts[name]
		switch {
		case n == nil || taken && old.node.Pos == n.Pos:
		case taken:
			j.report(n.Errorf("clash", "duplicate %s %s, first declared at %s", into.label, name, old.node.Pos))
		default:
			into.parts[name] = part{n, from.file, from.shared}
		}
	}
}

func (j *job) declareParts(p *parts, from part) {
	declareNamed(j, partTable{"model", j.names.models}, p.Models, from)
	declareNamed(j, partTable{"agent", j.names.agents}, p.Agents, from)
	declareNamed(j, partTable{"tool", j.names.tools}, p.Tools, from)
	declareNamed(j, partTable{"function", j.names.functions}, p.Functions, from)
	declareNamed(j, partTable{"schema", j.names.schemas}, p.Schemas, from)
	declareNamed(j, partTable{"default of", j.names.defaults}, p.Defaults, from)
}

// includeFiles registers the declarations of included files.
func (j *job) includeFiles(files []spec.Text, from string) {
	for _, at := range files {
		file := path.Join(path.Dir(from), at.Value)
		switch {
		case j.included[file]:
		case path.IsAbs(at.Value) || strings.Contains(at.Value, "\\") || escapesFolder(file) && !isSharedFile(file):
			d := at.Errorf(0, "path", "include %s is outside of the app folder", at.Value).
				WithHint("an include must be a file of the app, or a file next to the app folder: ../NAME.yaml")
			j.report(addSlashHint(d, at.Value))
		case !j.src.fileExists(file):
			j.report(at.Errorf(0, "file", "%s", j.src.missingFileMessage(file)))
		default:
			j.included[file] = true
			j.includeFile(file)
		}
	}
}

func (j *job) includeFile(file string) {
	n, ds := j.src.parseFile(file)
	j.report(ds...)
	if n == nil || ds.HasErrors() {
		j.appBroken = true
		return
	}
	var p parts
	ds = spec.Decode(n, &p)
	j.report(ds...)
	j.appBroken = j.appBroken || ds.HasErrors()
	j.declareParts(&p, part{file: file, shared: true})
}

// isSharedFile reports whether a path is a YAML file next to the app folder, which
// several apps may include.
func isSharedFile(file string) bool {
	name, ok := strings.CutPrefix(file, "../")
	return ok && !strings.ContainsAny(name, `/\`) && !strings.HasPrefix(name, ".") && (path.Ext(name) == ".yaml" || path.Ext(name) == ".yml")
}

// extractParts registers the declarations in an agent's file, and returns the agent
// without them. Only the root agent's file may declare more than agents.
func (j *job) extractParts(n *spec.Node, file string, root bool) *spec.Node {
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
			j.partKeys = append(j.partKeys, e.Key)
		}
	}
	rest, only := *n, *n
	rest.Entries = slices.DeleteFunc(slices.Clone(n.Entries), isPart)
	only.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return !isPart(e) })
	j.report(spec.Decode(&only, into)...)
	if !root {
		all.Agents = some.Agents
	}
	j.includeFiles(all.Include, file)
	j.declareParts(&parts{Agents: all.Agents, Functions: all.Functions, Schemas: all.Schemas, Defaults: all.Defaults}, part{file: file})
	return &rest
}

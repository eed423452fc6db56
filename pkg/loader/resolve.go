package loader

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// loadAndCompile loads the app. It returns an app only if there are no errors, and the
// agent tree as far as it is known.
func (j *job) loadAndCompile(ctx context.Context) (*runtime.App, *resolvedAgent) {
	root := j.resolveApp(ctx)
	if root == nil || j.ds.HasErrors() || j.src.budget.isExceeded() {
		j.closeResources()
		return nil, root
	}
	return j.compileApp(ctx, root), root
}

// resolveApp reads and validates everything. It returns the agent tree as far as it is
// known.
func (j *job) resolveApp(ctx context.Context) *resolvedAgent {
	j.report(j.loader.checkAppName(j.src)...)
	if j.src.fileExists(appFile) || j.src.hasOverlay(j.loader.opts.Overlay) {
		j.readAppFile()
	}
	j.checkIrregularFiles()
	n, t := j.readRootAgent()
	j.buildModels(ctx)
	j.buildPlugins(ctx)
	j.checkDefaults()
	j.checkSchemas()
	var root *resolvedAgent
	if n != nil {
		root = j.resolveAgent(ctx, n, t)
	}
	for _, check := range []func(){
		func() { j.checkUnused(ctx) },
		func() { j.checkCaching(ctx, root) },
		func() { j.resolveCompaction(ctx, root) },
		func() { j.checkCodeExecution(ctx, root, nil) },
		func() { j.checkState(root) },
		func() { j.checkFlow(root) },
		func() { j.checkTree(ctx, root) },
		func() { j.checkResumability(root) },
		j.checkSecrets,
	} {
		if j.src.budget.isExceeded() {
			break // a missing name may be in an unread file
		}
		check()
	}
	return root
}

func (j *job) readAppFile() {
	n, ds := j.src.readAppDocument(j.loader.opts.Overlay)
	j.report(ds...)
	j.appBroken = n == nil || ds.HasErrors()
	if n == nil {
		return
	}
	j.appNode = n
	j.summary.addApp(n)
	ds = addFieldHints(spec.Decode(n, &j.doc), n, appFieldHints())
	j.contextCacheNode = n.Get("context_cache_config")
	if j.doc.ContextCache != nil && !ds.HasErrors() {
		ds = append(ds, j.doc.ContextCache.Check(j.contextCacheNode)...)
	}
	if j.doc.Reload != nil && !ds.HasErrors() {
		ds = append(ds, j.doc.Reload.Check(n.Get("reload"))...)
	}
	j.report(ds...)
	j.appBroken = j.appBroken || ds.HasErrors()
	if name := j.doc.Name; name.Value != "" && name.Value != j.src.name {
		d := name.Errorf(0, "app-name", "the app name must be that of its folder, %s", j.src.name)
		d.Hint = "remove name, or rename the folder"
		j.report(d)
	}
	j.includeFiles(j.doc.Include, appFile)
	j.declareParts(&j.doc.Parts, part{file: appFile})
}

// readRootAgent reads the root agent and registers the declarations of its file. It
// returns nil if there is no root agent.
func (j *job) readRootAgent() (*spec.Node, ancestry) {
	ref := j.doc.RootAgent
	if ref != nil && ref.inline != nil {
		return ref.inline, ancestry{file: appFile}
	}
	file := agentFile
	if ref != nil && ref.file.Value != "" {
		file = path.Clean(ref.file.Value)
	}
	if ref != nil && !j.src.fileExists(file) {
		j.report(ref.file.Errorf(0, "file", "file %s not found in the app folder", file))
		return nil, ancestry{}
	}
	if ref == nil && !j.src.fileExists(file) {
		j.report(spec.Diagnostic{
			Pos: spec.Pos{File: j.src.displayPath(appFile)}, Rule: "required",
			Message: "the app has no root agent", Hint: j.missingAgentHint(),
		})
		return nil, ancestry{}
	}
	return j.readAgentFile(file, ancestry{}, true)
}

// missingAgentHint returns how to add a root agent.
func (j *job) missingAgentHint() string {
	for _, names := range misnamedFiles() {
		if names[1] == agentFile && j.src.fileExists(names[0]) {
			return "rename " + names[0] + " to " + agentFile
		}
	}
	return "create root_agent.yaml next to app.yaml, or declare the agent under root_agent"
}

// readAgentFile reads an agent's file and registers its declarations. It returns a nil
// node if the file does not contain an agent.
func (j *job) readAgentFile(file string, t ancestry, root bool) (*spec.Node, ancestry) {
	n, ds := j.src.readDocument(file)
	j.report(ds...)
	if n == nil {
		return nil, t
	}
	if n.Kind != spec.Mapping {
		j.report(n.Errorf("type", "the file does not contain an agent: an agent is a mapping with a name"))
		return nil, t
	}
	return j.extractParts(n, file, root), t.extendWith(file, file)
}

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

// checkUnused validates unused declarations and warns of them. It skips included ones.
func (j *job) checkUnused(ctx context.Context) {
	// If there are errors, the user of a declaration may be unknown.
	sure := !j.ds.HasErrors()
	unused := func(what, name string, p part) bool {
		if j.used[p.node] || p.shared {
			return false
		}
		if sure {
			j.report(p.node.Warnf("unused", "unused %s %s", what, name))
		}
		return true
	}
	for name, p := range sortedParts(j.names.agents) {
		if unused("agent", name, p) {
			j.resolveAgent(ctx, addDefaultName(p.node, name), ancestry{file: p.file, visited: []string{"use " + name}})
		}
	}
	for name, p := range sortedParts(j.names.tools) {
		if unused("tool", name, p) {
			j.resolveDeclaredTool(ctx, p, ancestry{})
		}
	}
	for name, p := range sortedParts(j.names.functions) {
		if unused("function", name, p) && j.isToolDefinition(p.node) {
			j.resolveMappedTool(ctx, p, name, ancestry{})
		}
	}
	for name, p := range sortedParts(j.names.schemas) {
		unused("schema", name, p)
	}
	for class, p := range sortedParts(j.names.defaults) {
		unused("default of", class, p)
	}
}

// isToolDefinition reports whether an unused function is a tool.
func (j *job) isToolDefinition(n *spec.Node) bool {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 {
		return false
	}
	_, ok := j.loader.toolKinds.Lookup(n.Entries[0].Key.Value)
	return ok
}

// checkIrregularFiles reports optional files that exist but cannot be read. They would
// otherwise be ignored.
func (j *job) checkIrregularFiles() {
	files := []string{appFile}
	if overlay := j.loader.opts.Overlay; overlay != "" {
		files = append(files, OverlayFile(overlay))
	}
	for _, file := range files {
		if j.src.isIrregular(file) {
			j.reportIrregularFile(file)
		}
	}
}

func (j *job) reportIrregularFile(file string) {
	j.report(spec.Diagnostic{
		Pos: spec.Pos{File: j.src.displayPath(file)}, Rule: "file",
		Message: "not a regular file of the app: it is a folder, a pipe, a device, or a link out of the app folder",
	})
}

// collectProblems returns what a load has found, sorted by place, each problem once.
func (j *job) collectProblems() spec.Diagnostics {
	ds := j.src.dropFollowUpProblems(j.ds)
	ds.Sort()
	return ds.Merge(sharedRules...)
}

// sharedRules are the rules about names: a name that the app or the host lacks is
// one problem, however many agents use it.
var sharedRules = []string{"code", "env", "file", "grant", "model", "unknown-name"}

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

package loader

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// loadAndCompile resolves and checks the app, and compiles it if there are no errors.
func (r *resolver) loadAndCompile(ctx context.Context) *runtime.App {
	r.resolveApp(ctx)
	if r.app.root == nil || r.ds.HasErrors() || r.src.budget.isExceeded() {
		r.held.close()
		return nil
	}
	c := &compiler{app: r.app, src: r.src, held: &r.held, replace: r.loader.opts.ReplaceTool}
	app, err := c.compileApp(ctx)
	if err == nil {
		return app
	}
	r.held.close()
	if !isLimitError(err) { // reported at the end of the load
		r.reportBuildError(r.app.root.plan.Node, "build", err)
	}
	return nil
}

// resolveApp reads and resolves everything, and checks the model.
func (r *resolver) resolveApp(ctx context.Context) {
	r.app.defaultModel = func() model.LLM { return r.buildDefaultModel(ctx) }
	r.report(checkAppName(r.src)...)
	if r.src.fileExists(appFile) || r.src.hasOverlay(r.loader.opts.Overlay) {
		r.readAppFile()
	}
	r.checkIrregularFiles()
	n, t := r.readRootAgent()
	r.buildModels(ctx)
	r.buildPlugins(ctx)
	r.checkDefaults()
	r.checkSchemas()
	if n != nil {
		r.app.root = r.resolveAgent(ctx, n, t)
	}
	for _, step := range []func(ctx context.Context){r.resolveUnused, r.resolveSummarizer} {
		if !r.src.budget.isExceeded() { // a missing name may be in an unread file
			step(ctx)
		}
	}
	r.app.documents = r.src.roots
	r.runRules()
}

// runRules checks the model by all rules.
func (r *resolver) runRules() {
	for _, rule := range rules() {
		switch {
		case rule.needs >= resolvedTree && (r.app.root == nil || r.src.budget.isExceeded()):
		case rule.needs >= validApp && r.ds.HasErrors():
		default:
			r.report(rule.check(r.app)...)
		}
	}
}

// resolveSummarizer resolves the model that writes summaries, if app.yaml names one.
func (r *resolver) resolveSummarizer(ctx context.Context) {
	if c := r.app.doc.Compaction; c != nil && c.config.Summarizer.Model.Value != "" {
		r.app.summarizer = r.resolveModel(ctx, c.config.Summarizer.Model)
	}
}

func (r *resolver) readAppFile() {
	n, ds := r.src.readAppDocument(r.loader.opts.Overlay)
	r.report(ds...)
	r.appBroken = n == nil || ds.HasErrors()
	if n == nil {
		return
	}
	r.app.appNode = n
	ds = addFieldHints(spec.Decode(n, &r.app.doc), n, appFieldHints())
	if r.app.doc.ContextCache != nil && !ds.HasErrors() {
		ds = append(ds, r.app.doc.ContextCache.Check(r.app.contextCacheNode())...)
	}
	if r.app.doc.Reload != nil && !ds.HasErrors() {
		ds = append(ds, r.app.doc.Reload.Check(n.Get("reload"))...)
	}
	r.report(ds...)
	r.appBroken = r.appBroken || ds.HasErrors()
	if name := r.app.doc.Name; name.Value != "" && name.Value != r.src.name {
		d := name.Errorf(0, "app-name", "the app name must be that of its folder, %s", r.src.name)
		d.Hint = "remove name, or rename the folder"
		r.report(d)
	}
	r.includeFiles(r.app.doc.Include, appFile)
	r.declareParts(&r.app.doc.Parts, part{file: appFile})
}

// readRootAgent reads the root agent and registers the declarations of its file. It
// returns nil if there is no root agent.
func (r *resolver) readRootAgent() (*spec.Node, ancestry) {
	ref := r.app.doc.RootAgent
	if ref != nil && ref.inline != nil {
		return ref.inline, ancestry{file: appFile}
	}
	file := agentFile
	if ref != nil && ref.file.Value != "" {
		file = path.Clean(ref.file.Value)
	}
	if ref != nil && !r.src.fileExists(file) {
		r.report(ref.file.Errorf(0, "file", "file %s not found in the app folder", file))
		return nil, ancestry{}
	}
	if ref == nil && !r.src.fileExists(file) {
		r.report(spec.Diagnostic{
			Pos: spec.Pos{File: r.src.displayPath(appFile)}, Rule: "required",
			Message: "the app has no root agent", Hint: r.missingAgentHint(),
		})
		return nil, ancestry{}
	}
	return r.readAgentFile(file, ancestry{}, true)
}

// missingAgentHint returns how to add a root agent.
func (r *resolver) missingAgentHint() string {
	for _, names := range misnamedFiles() {
		if names[1] == agentFile && r.src.fileExists(names[0]) {
			return "rename " + names[0] + " to " + agentFile
		}
	}
	return "create root_agent.yaml next to app.yaml, or declare the agent under root_agent"
}

// readAgentFile reads an agent's file and registers its declarations. It returns a nil
// node if the file does not contain an agent.
func (r *resolver) readAgentFile(file string, t ancestry, root bool) (*spec.Node, ancestry) {
	n, ds := r.src.readDocument(file)
	r.report(ds...)
	if n == nil {
		return nil, t
	}
	if n.Kind != spec.Mapping {
		r.report(n.Errorf("type", "the file does not contain an agent: an agent is a mapping with a name"))
		return nil, t
	}
	return r.extractParts(n, file, root), t.extendWith(file, file)
}

// buildPlugins builds the plugins of app.yaml and reports all problems of their
// settings.
func (r *resolver) buildPlugins(ctx context.Context) {
	seen := map[string]bool{}
	for _, ref := range r.app.doc.Plugins {
		if ref.name == nil {
			continue // already reported when app.yaml was decoded
		}
		kind, ok := r.loader.plugins.Lookup(ref.name.Value)
		if !ok {
			r.report(unknownNameError(ref.name, "plugin %s", ref.name.Value, r.loader.plugins.Names()))
			continue
		}
		if seen[kind.Name] {
			r.report(ref.name.Errorf("duplicate-name", "duplicate plugin %s", kind.Name))
		}
		seen[kind.Name] = true
		if p := r.buildPlugin(ctx, kind, ref.config); p != nil {
			r.app.plugins = append(r.app.plugins, p)
		}
	}
}

func (r *resolver) buildPlugin(ctx context.Context, kind spec.Kind[runtime.PluginEnv, *runtime.Plugin], n *spec.Node) *runtime.Plugin {
	plan, ds := kind.Decode(n)
	ds = append(ds, r.bindFunctions(plan.Config)...)
	r.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	p, err := plan.Build(ctx, runtime.PluginEnv{Logger: r.loader.opts.Logger})
	if err != nil {
		r.reportBuildError(n, "build", err)
		return nil
	}
	return p
}

// resolveUnused validates unused declarations and records them. It skips included ones.
func (r *resolver) resolveUnused(ctx context.Context) {
	// If there are errors, the user of a declaration may be unknown.
	sure := !r.ds.HasErrors()
	unused := func(what, name string, p part) bool {
		if r.app.used[p.node] || p.shared {
			return false
		}
		if sure {
			r.app.unused = append(r.app.unused, unusedPart{what, name, p.node})
		}
		return true
	}
	for name, p := range sortedParts(r.app.names.agents) {
		if unused("agent", name, p) {
			r.resolveAgent(ctx, addDefaultName(p.node, name), ancestry{file: p.file, visited: []string{"use " + name}})
		}
	}
	for name, p := range sortedParts(r.app.names.tools) {
		if unused("tool", name, p) {
			r.resolveDeclaredTool(ctx, p, ancestry{})
		}
	}
	for name, p := range sortedParts(r.app.names.functions) {
		if unused("function", name, p) && r.isToolDefinition(p.node) {
			r.resolveMappedTool(ctx, p, name, ancestry{})
		}
	}
	for name, p := range sortedParts(r.app.names.schemas) {
		unused("schema", name, p)
	}
	for class, p := range sortedParts(r.app.names.defaults) {
		unused("default of", class, p)
	}
}

// isToolDefinition reports whether an unused function is a tool.
func (r *resolver) isToolDefinition(n *spec.Node) bool {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 {
		return false
	}
	_, ok := r.loader.toolKinds.Lookup(n.Entries[0].Key.Value)
	return ok
}

// checkIrregularFiles reports optional files that exist but cannot be read. They would
// otherwise be ignored.
func (r *resolver) checkIrregularFiles() {
	files := []string{appFile}
	if overlay := r.loader.opts.Overlay; overlay != "" {
		files = append(files, OverlayFile(overlay))
	}
	for _, file := range files {
		if r.src.isIrregular(file) {
			r.reportIrregularFile(file)
		}
	}
}

func (r *resolver) reportIrregularFile(file string) {
	r.report(spec.Diagnostic{
		Pos: spec.Pos{File: r.src.displayPath(file)}, Rule: "file",
		Message: "not a regular file of the app: it is a folder, a pipe, a device, or a link out of the app folder",
	})
}

// collectProblems returns what a load has found, sorted by place, each problem once.
func (r *resolver) collectProblems() spec.Diagnostics {
	ds := r.src.dropFollowUpProblems(r.ds)
	ds.Sort()
	return ds.Merge(sharedRules...)
}

// sharedRules are the rules about names: a name that the app or the host lacks is
// one problem, however many agents use it.
var sharedRules = []string{"code", "env", "file", "grant", "model", "unknown-name"}

// declareNamed registers the declarations of a document. A duplicate name is an error
// with both positions.
func declareNamed[N partNode](r *resolver, into partTable, found map[string]N, from part) {
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

func (r *resolver) declareParts(p *parts, from part) {
	declareNamed(r, partTable{"model", r.app.names.models}, p.Models, from)
	declareNamed(r, partTable{"agent", r.app.names.agents}, p.Agents, from)
	declareNamed(r, partTable{"tool", r.app.names.tools}, p.Tools, from)
	declareNamed(r, partTable{"function", r.app.names.functions}, p.Functions, from)
	declareNamed(r, partTable{"schema", r.app.names.schemas}, p.Schemas, from)
	declareNamed(r, partTable{"default of", r.app.names.defaults}, p.Defaults, from)
}

// includeFiles registers the declarations of included files.
func (r *resolver) includeFiles(files []spec.Text, from string) {
	for _, at := range files {
		file := path.Join(path.Dir(from), at.Value)
		switch {
		case r.included[file]:
		case path.IsAbs(at.Value) || strings.Contains(at.Value, "\\") || escapesFolder(file) && !isSharedFile(file):
			d := at.Errorf(0, "path", "include %s is outside of the app folder", at.Value).
				WithHint("an include must be a file of the app, or a file next to the app folder: ../NAME.yaml")
			r.report(addSlashHint(d, at.Value))
		case !r.src.fileExists(file):
			r.report(at.Errorf(0, "file", "%s", r.src.missingFileMessage(file)))
		default:
			r.included[file] = true
			r.includeFile(file)
		}
	}
}

func (r *resolver) includeFile(file string) {
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

// extractParts registers the declarations in an agent's file, and returns the agent
// without them. Only the root agent's file may declare more than agents.
func (r *resolver) extractParts(n *spec.Node, file string, root bool) *spec.Node {
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

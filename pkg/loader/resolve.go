package loader

import (
	"context"
	"path"

	"agenthost/pkg/agentconfig"
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
		r.reportMissingKeys(ctx)
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
	r.report(checkAppName(r.src.name, r.src.displayDir)...)
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

// runRules checks the app by all rules.
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

func (r *resolver) buildPlugin(ctx context.Context, kind spec.Kind[agentconfig.PluginEnv, *runtime.Plugin], n *spec.Node) *runtime.Plugin {
	plan, ds := kind.Decode(n)
	ds = append(ds, r.bindFunctions(plan.Config)...)
	r.report(ds...)
	if ds.HasErrors() {
		return nil
	}
	p, err := plan.Build(ctx, agentconfig.PluginEnv{Logger: r.loader.opts.Logger})
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

// collectProblems returns what a load has found, sorted by place, each problem once.
func (r *resolver) collectProblems() spec.Diagnostics {
	ds := r.src.dropFollowUpProblems(r.ds)
	ds.Sort()
	return ds.Merge(sharedRules...)
}

// sharedRules are the rules about names: a name that the app or the host lacks is
// one problem, however many agents use it.
var sharedRules = []string{"code", "env", "file", "grant", "model", "unknown-name"}

package loader

import (
	"context"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// Load builds a folder's app. It returns all problems, sorted by position; if one of them is an
// error, the app is nil. Building opens no connections. The caller owns the app and must pass it to
// a host or Close it.
func (l *Loader) Load(ctx context.Context, dir string) (*runtime.App, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, nil)
	return got.app, got.ds
}

// A LoadedApp is an app with the files that it was built from.
type LoadedApp struct {
	App *runtime.App
	// Files are the files by path in the app folder, except .env, which contains this machine's
	// secrets.
	Files map[string][]byte
}

// LoadFiles is like [Loader.Load], but also returns the files. It returns nil if there
// are errors.
func (l *Loader) LoadFiles(ctx context.Context, dir string) (*LoadedApp, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, nil)
	if got.app == nil {
		return nil, got.ds
	}
	return &LoadedApp{got.app, got.files}, got.ds
}

// SaveRevision stores the app's revision, so that events may refer to it.
func (a *LoadedApp) SaveRevision(ctx context.Context, revisions *store.Revisions) error {
	return a.saveAtMost(ctx, revisions, a.App.Reload().KeepRevisions)
}

// saveAtMost stores the app's revision, and keeps only the newest keep revisions.
func (a *LoadedApp) saveAtMost(ctx context.Context, revisions *store.Revisions, keep int) error {
	return revisions.Put(ctx, &store.Revision{App: a.App.Name(), ID: a.App.Revision(), Files: a.Files}, keep)
}

// LoadRevision builds a revision's app from its files, with the current environment and the app
// folder's current .env. The app has the revision's ID, whatever the environment.
func (l *Loader) LoadRevision(ctx context.Context, rev *store.Revision, dir string) (*runtime.App, error) {
	src := newSource(rev.App, dir, &l.opts)
	src.storedRevision = rev
	if now, _ := l.openAppFolder(dir); now != nil {
		src.dotenv = now.dotenv
		now.close()
	}
	got := l.loadSource(ctx, src, nil)
	if got.app == nil {
		return nil, fmt.Errorf("building revision %s of app %s: %w", rev.ID, rev.App, got.ds.Err())
	}
	return got.app, nil
}

// loadResult is what loading a folder returned.
type loadResult struct {
	app *runtime.App
	ds  spec.Diagnostics
	// outside are the files outside the folder that the app depends on.
	outside []string
	// files are those that the app was built from; read are those that were read
	// from the folder, also when there is no app.
	files, read map[string][]byte
}

// loadApp builds a folder's app with the previous load's cache, and then calls a function that
// reads its tests; both may be nil.
func (l *Loader) loadApp(ctx context.Context, dir string, r *loadCache, then func(context.Context, *resolver)) loadResult {
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return loadResult{ds: ds}
	}
	defer src.close()
	if src.cache = r; r != nil {
		r.startLoad()
	}
	return l.loadSource(ctx, src, then)
}

// loadAppSafely is loadApp for a running host: a panic becomes this app's problem and does not
// affect others. In other programs a panic ends the process.
func (l *Loader) loadAppSafely(ctx context.Context, dir string, r *loadCache, then func(context.Context, *resolver)) (got loadResult) {
	p := safe.Call(func() { got = l.loadApp(ctx, dir, r, then) })
	if p == nil {
		return got
	}
	p.Log(l.opts.Logger, "loading an app panicked", "app", AppName(dir))
	return loadResult{ds: spec.Diagnostics{{
		Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "build",
		Message: "loading the app panicked, which is a bug in agenthost: " + p.Error(),
	}}}
}

// loadSource builds an open source's app.
func (l *Loader) loadSource(ctx context.Context, src *source, then func(context.Context, *resolver)) loadResult {
	src.budget = newLoadBudget(ctx)
	r := newResolver(l, src)
	app := r.loadAndCompile(ctx)
	if then != nil {
		then(ctx, r)
		if r.app.documents = src.roots; !r.ds.HasErrors() {
			r.report(checkSecrets(r.app)...) // in the tests
		}
	}
	if src.budget.exceeded != nil {
		r.report(src.budget.exceeded.toDiagnostic(src.displayDir))
	}
	r.ds = r.collectProblems()
	if r.ds.HasErrors() {
		if app != nil {
			app.Close()
		}
		return loadResult{ds: r.ds, outside: src.outsideFiles, read: src.readFiles}
	}
	files := maps.Clone(src.readFiles)
	delete(files, dotenvFile) // it contains this machine's secrets
	return loadResult{app, r.ds, src.outsideFiles, files, src.readFiles}
}

// openAppFolder opens an app's folder, or returns the problem.
func (l *Loader) openAppFolder(dir string) (*source, spec.Diagnostics) {
	src, err := openSource(dir, &l.opts)
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "file", Message: "cannot read the app's folder: " + formatOSError(err)}}
	}
	return src, nil
}

// newRevisionResolver returns a resolver for a revision without its host's environment. References
// to variables and secrets stay as they are written.
func (l *Loader) newRevisionResolver(rev *store.Revision) *resolver {
	bare := *l
	bare.opts.Env = func(string) (string, bool) { return "", false }
	bare.opts.MissingKey = nil
	bare.opts.Overlay, bare.opts.Secrets = "", ""
	for file := range rev.Files { // the name of its overlay file contains the environment
		if name, ok := strings.CutPrefix(file, "app."); ok && path.Ext(name) == ".yaml" {
			bare.opts.Overlay = strings.TrimSuffix(name, ".yaml")
			break
		}
	}
	src := newSource(rev.App, "", &bare.opts)
	src.storedRevision, src.keepsReferences = rev, true
	return newResolver(&bare, src)
}

// loadAndCompile resolves and checks the app, and compiles it if there are no errors.
func (r *resolver) loadAndCompile(ctx context.Context) *runtime.App {
	r.resolveApp(ctx)
	if r.app.root == nil || r.ds.HasErrors() || r.src.budget.isExceeded() {
		r.held.close()
		return nil
	}
	c := &compiler{r.appLoad}
	app, err := c.compileApp(ctx)
	if err == nil {
		r.reportMissingKeys(ctx)
		return app
	}
	r.held.close()
	if !isLimitError(err) { // reported when the load ends
		r.reportBuildError(r.app.root.plan.Node, "build", err)
	}
	return nil
}

// resolveApp reads and resolves everything, and checks the model.
func (r *resolver) resolveApp(ctx context.Context) {
	r.app.defaultModel = func() model.LLM {
		if _, ok := r.loader.findDefaultModel(); !ok && !usesDefaultModel(r.app.root) {
			return nil // the program does not have it, and no agent needs it
		}
		return r.buildDefaultModel(ctx)
	}
	r.report(checkAppName(r.src.name, r.src.displayDir)...)
	r.report(r.src.dotenvProblems...)
	if r.src.fileExists(appFile) || r.src.hasOverlay(r.loader.opts.Overlay) {
		r.readAppFile()
	}
	// An optional file that exists but cannot be read would otherwise be ignored.
	for _, file := range []string{appFile, OverlayFile(r.loader.opts.Overlay)} {
		if (file == appFile || r.loader.opts.Overlay != "") && r.src.isIrregular(file) {
			r.reportIrregularFile(file)
		}
	}
	n, t := r.readRootAgent()
	r.buildModels(ctx)
	r.buildPlugins(ctx)
	r.checkDefaults()
	r.checkSchemas()
	r.checkConnections()
	if n != nil {
		r.app.root = r.resolveAgent(ctx, n, t)
	}
	if !r.src.budget.isExceeded() { // a missing name may be in an unread file
		r.resolveUnused(ctx)
	}
	if c := r.app.doc.Compaction; c != nil && c.config.Summarizer.Model.Value != "" && !r.src.budget.isExceeded() {
		r.app.summarizer = r.resolveModel(ctx, c.config.Summarizer.Model)
	}
	r.app.documents = r.src.roots
	for _, rule := range rules() {
		switch {
		case rule.needs >= resolvedTree && (r.app.root == nil || r.src.budget.isExceeded()):
		case rule.needs >= validApp && r.ds.HasErrors():
		default:
			r.report(rule.check(r.app)...)
		}
	}
	if r.app.root != nil && !r.ds.HasErrors() && !r.src.budget.isExceeded() {
		r.checkMaxCost(ctx)
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
	ds = r.decodeDocument(n)
	if r.app.doc.ContextCache != nil && !ds.HasErrors() {
		ds = append(ds, r.app.doc.ContextCache.Check(r.app.contextCacheNode())...)
	}
	if r.app.doc.Reload != nil && !ds.HasErrors() {
		ds = append(ds, r.app.doc.Reload.Check(n.Get("reload"))...)
	}
	r.report(ds...)
	r.appBroken = r.appBroken || ds.HasErrors()
	if name := r.app.doc.Name; name.Value != "" && name.Value != r.src.name {
		d := name.Errorf(0, "app-name", "the app name must be the folder name, %s", r.src.name)
		d.Hint = "remove name, or rename the folder"
		r.report(d)
	}
	r.includeFiles(r.app.doc.Include, appFile)
	r.declareParts(&r.app.doc.Parts, part{file: appFile})
}

// readRootAgent reads the root agent and registers the declarations in its file. It returns nil if
// there is no root agent.
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
		hint := "create root_agent.yaml next to app.yaml, or declare the agent under root_agent"
		for _, names := range misnamedFiles() {
			if names[1] == agentFile && r.src.fileExists(names[0]) {
				hint = "rename " + names[0] + " to " + agentFile
				break
			}
		}
		r.report(spec.Diagnostic{
			Pos: spec.Pos{File: r.src.displayPath(appFile)}, Rule: "required",
			Message: "the app has no root agent", Hint: hint,
		})
		return nil, ancestry{}
	}
	return r.readAgentFile(file, ancestry{}, true)
}

// buildPlugins builds app.yaml's plugins and reports all problems with their settings.
func (r *resolver) buildPlugins(ctx context.Context) {
	seen := map[string]bool{}
	for _, ref := range r.app.doc.Plugins {
		if ref.name == nil {
			continue // already reported when app.yaml was decoded
		}
		kind, ok := r.loader.kinds.Plugins.Lookup(ref.name.Value)
		if !ok {
			r.report(unknownNameError(ref.name, "plugin %s", ref.name.Value, r.loader.kinds.Plugins.Names()))
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

// toolPart is the kind when an [unusedPart] is a tool.
const toolPart = "tool"

// resolveUnused validates unused declarations and records them. It skips included ones.
func (r *resolver) resolveUnused(ctx context.Context) {
	// If there are errors, the user of a declaration may be unknown.
	sure := !r.ds.HasErrors()
	unused := func(what, name string, p part) bool {
		if r.app.used[p.node] || p.shared {
			return false
		}
		if sure && (what != toolPart || !r.app.choosesTool) {
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
		if unused(toolPart, name, p) {
			r.resolveDeclaredTool(ctx, p, ancestry{})
		}
	}
	for name, p := range sortedParts(r.app.names.functions) {
		if !unused("function", name, p) || p.node.Kind != spec.Mapping || len(p.node.Entries) != 1 {
			continue
		}
		if _, isTool := r.loader.kinds.Tools.Lookup(p.node.Entries[0].Key.Value); isTool {
			r.resolveMappedTool(ctx, p, name, ancestry{})
		}
	}
	for name, p := range sortedParts(r.app.names.schemas) {
		unused("schema", name, p)
	}
	for name, p := range sortedParts(r.app.names.connections) {
		unused("connection", name, p)
	}
	for class, p := range sortedParts(r.app.names.defaults) {
		unused("default of", class, p)
	}
}

// collectProblems returns what a load has found, sorted by place, each problem once.
func (r *resolver) collectProblems() spec.Diagnostics {
	ds := r.ds
	if len(r.src.unfilled) > 0 {
		// A scalar's problem that only follows from an unexpanded reference is already reported.
		ds = slices.DeleteFunc(ds, func(d spec.Diagnostic) bool {
			return !slices.ContainsFunc(r.src.unfilledProblems, d.Equal) && slices.ContainsFunc(r.src.unfilled, func(u unfilledScalar) bool { return u.containsPos(d.Pos) })
		})
	}
	ds = joinVariableProblems(ds)
	ds.Sort()
	return ds.Merge(sharedRules...)
}

// sharedRules are the rules about names: a name that the app or the host lacks is
// one problem, however many agents use it.
var sharedRules = []string{"code", "env", "file", "grant", "model", "unknown-name"}

package loader

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"agenthost/internal/policy"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// job is one load of one app. It collects the contents of the files and all problems.
type job struct {
	loader *Loader
	src    *source
	ds     spec.Diagnostics

	doc     document
	appNode *spec.Node // app.yaml with its overlay; nil if there is none
	// partKeys are the keys of declarations in agents' files.
	partKeys []*spec.Node
	// appBroken reports that app.yaml could not be parsed completely, so that
	// declarations may be missing.
	appBroken     bool
	names         registry
	included      map[string]bool
	agentCount    int
	transferPairs int
	models        map[string]model.LLM
	bareModels    map[string]bareModel
	plugins       []*runtime.Plugin
	used          map[*spec.Node]bool
	sharedTools   map[*spec.Node]*resolvedTool // built tools under tools, shared by their users
	closers       []func() error
	// contextCacheNode is the context cache setting of app.yaml, or nil.
	contextCacheNode *spec.Node

	summarizer model.LLM
	// guard decides which addresses the app may use.
	guard *policy.Guard
	// summary collects the summary of the app; nil means none is requested.
	summary *Summary
}

func newJob(l *Loader, src *source) *job {
	return &job{
		loader: l, src: src, names: newRegistry(), included: map[string]bool{}, models: map[string]model.LLM{}, bareModels: map[string]bareModel{},
		used: map[*spec.Node]bool{}, sharedTools: map[*spec.Node]*resolvedTool{}, guard: l.opts.Policy.Guard(src.name),
	}
}

func (j *job) report(ds ...spec.Diagnostic) { j.ds = append(j.ds, ds...) }

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

// ancestry is the path from the root to an agent: the current file, and the files and
// names on the path, to detect cycles.
type ancestry struct {
	file    string
	visited []string
}

func (t ancestry) hasVisited(mark string) bool { return slices.Contains(t.visited, mark) }

func (t ancestry) extendWith(file, mark string) ancestry {
	return ancestry{file: file, visited: append(slices.Clone(t.visited), mark)}
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

func (j *job) resolveAgentFile(ctx context.Context, file string, t ancestry) *resolvedAgent {
	n, t := j.readAgentFile(file, t, false)
	if n == nil {
		return nil
	}
	return j.resolveAgent(ctx, n, t)
}

// maxAgents limits the size of the tree. Agents that use each other twice at each level
// would otherwise grow exponentially.
const maxAgents = 4000

// resolvedAgent is an agent at its position in the tree, validated but not built.
type resolvedAgent struct {
	plan spec.Plan[runtime.AgentEnv, runtime.Agent]
	name string
	// at is the reference to the agent, nil for the root. base is the mapping as
	// written, with the defaults of its class.
	at, base *spec.Node
	subs     []*resolvedAgent
	tools    []*resolvedTool
	model    model.LLM

	callbacks runtime.Callbacks
	use       *lazyStateUse
}

// resolveAgent validates an agent and its descendants. It returns nil if the agent
// cannot be determined. It reports problems in either case.
func (j *job) resolveAgent(ctx context.Context, n *spec.Node, t ancestry) *resolvedAgent {
	if j.agentCount++; j.agentCount > maxAgents {
		if j.agentCount == maxAgents+1 {
			j.report(n.Errorf("limit", "the app exceeds the limit of %d agents, counting every use", maxAgents))
		}
		return nil
	}
	if n.Kind != spec.Mapping || j.src.budget.isExceeded() {
		return nil // already reported when the list was decoded, or reported at the end
	}
	place := j.summary.reserveSlot()
	if n = j.applyMappedClass(n); n == nil {
		return nil
	}
	kind, known := j.findAgentKind(n)
	base := j.applyDefaults(n, kind.Name)
	n = j.inlineNames(base)
	d := j.decodeAgent(kind, n)
	plan := d.plan
	if known {
		j.report(d.ds...)
	} else {
		j.report(dropClassProblems(d.ds, n.Get("agent_class"))...)
	}
	p := &resolvedAgent{plan: plan, name: j.checkAgentName(n), base: base, callbacks: d.callbacks, use: d.use}
	if m, ok := plan.Config.(interface{ ModelName() spec.Text }); ok {
		p.model = j.resolveModel(ctx, m.ModelName())
	}
	if m, ok := plan.Config.(interface{ ModelCodeNode() *spec.Node }); ok && !m.ModelCodeNode().IsNull() {
		p.model = j.resolveModelCode(ctx, n)
	}
	if refs, ok := plan.Config.(interface{ AgentRefs() []*runtime.AgentRef }); ok {
		for _, ref := range refs.AgentRefs() {
			if sub := j.resolveRef(ctx, ref, t); sub != nil {
				sub.at = ref.Node
				p.subs = append(p.subs, sub)
			}
		}
	}
	j.checkSiblings(p)
	j.checkJoinNodes(p)
	j.countTransferPairs(p)
	if refs, ok := plan.Config.(interface{ ToolRefs() []*runtime.ToolRef }); ok {
		for _, ref := range refs.ToolRefs() {
			for _, pt := range j.resolveTool(ctx, ref, t) {
				pt.at = ref.Node
				p.tools = append(p.tools, pt)
			}
		}
	}
	j.checkToolNames(ctx, p)
	j.summary.addAgent(place, n, p.subs)
	return p
}

// decodedAgent is a decoded agent mapping.
type decodedAgent struct {
	plan      spec.Plan[runtime.AgentEnv, runtime.Agent]
	callbacks runtime.Callbacks
	use       *lazyStateUse
	ds        spec.Diagnostics
}

type agentKey struct {
	class string
	node  *spec.Node
}

// decodeAgent decodes an agent mapping. Agents that read other files are decoded each
// time.
func (j *job) decodeAgent(kind spec.Kind[runtime.AgentEnv, runtime.Agent], n *spec.Node) *decodedAgent {
	return getOrMake(j.src.cache, agentKey{kind.Name, n}, func() (*decodedAgent, bool) {
		d := &decodedAgent{}
		d.plan, d.ds = kind.Decode(n)
		d.ds = append(addFieldHints(d.ds, n, agentFieldHints()), checkConfig(d.plan.Config, n)...)
		selfContained := j.readConfigFiles(d.plan.Config, &d.ds)
		d.ds = append(d.ds, j.bindFunctions(d.plan.Config)...)
		callbacks, ds := runtime.DecodeCallbacks(n, j.loader.opts.Functions.Callbacks)
		d.callbacks, d.ds = callbacks, append(d.ds, ds...)
		d.use = &lazyStateUse{find: func() tool.StateUse { return runtime.StateUse(n, d.plan.Config) }}
		return d, selfContained
	})
}

// bindFunctions resolves the registered functions that a config names.
func (j *job) bindFunctions(config any) spec.Diagnostics {
	if c, ok := config.(interface {
		Bind(f *runtime.Functions) spec.Diagnostics
	}); ok {
		return c.Bind(&j.loader.opts.Functions)
	}
	return nil
}

// checkConfig runs the config's own validation.
func checkConfig(config any, n *spec.Node) spec.Diagnostics {
	if c, ok := config.(interface {
		Check(n *spec.Node) spec.Diagnostics
	}); ok {
		return c.Check(n)
	}
	return nil
}

// findAgentKind finds the class of an agent. If the class is unknown, it reports the
// error and returns the suggested class with known true, or else LlmAgent, so that the
// rest of the agent is validated.
func (j *job) findAgentKind(n *spec.Node) (kind spec.Kind[runtime.AgentEnv, runtime.Agent], known bool) {
	kinds := j.loader.agentKinds
	fallback, _ := kinds.Lookup("LlmAgent")
	class := n.Get("agent_class")
	if class.IsNull() {
		return fallback, true
	}
	if class.Kind != spec.Scalar {
		j.report(class.Errorf("type", "agent_class must be a string, such as LoopAgent"))
		return fallback, false
	}
	name := normalizeClassName(class.Value)
	if kind, ok := kinds.Lookup(name); ok {
		return kind, true
	}
	if strings.Contains(name, ".") {
		j.report(missingCodeError(class, "agent class", name,
			"declare a replacement agent under functions in app.yaml, or use one of the classes "+strings.Join(kinds.Names(), ", ")))
		return fallback, false
	}
	j.report(unknownNameError(class, "agent class %s", name, kinds.Names()))
	if near, ok := kinds.Lookup(spec.Suggest(name, kinds.Names())); ok {
		return near, true
	}
	return fallback, false
}

// dropClassProblems removes problems that follow from an unknown class: unknown and
// missing fields, and the class itself.
func dropClassProblems(ds spec.Diagnostics, class *spec.Node) spec.Diagnostics {
	return slices.DeleteFunc(slices.Clone(ds), func(d spec.Diagnostic) bool {
		return d.Rule == "unknown-field" || d.Rule == "required" || d.Pos == class.Pos
	})
}

// unknownNameError returns the error for a name that is not in a list. The format what
// contains %s for the quoted name.
func unknownNameError(at *spec.Node, what, name string, names []string) spec.Diagnostic {
	d := at.Errorf("unknown-name", "unknown %s; %s", fmt.Sprintf(what, strconv.Quote(name)), listNames(names))
	near := spec.Suggest(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, name+"_") }); near == "" && i >= 0 {
		near = names[i]
	}
	if near != "" {
		d = d.WithHint("did you mean %q?", near)
	}
	return d
}

// maxListed limits how many names a message lists.
const maxListed = 50

func listNames(names []string) string {
	if len(names) == 0 {
		return "none available"
	}
	if len(names) > maxListed {
		return fmt.Sprintf("available: %s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return "available: " + strings.Join(names, ", ")
}

func (j *job) resolveRef(ctx context.Context, ref *runtime.AgentRef, t ancestry) *resolvedAgent {
	switch {
	case ref.Code.Value != "":
		if f, ok := j.findFunction(ref.Code.Value); ok {
			return j.resolveMappedAgent(ctx, f, ref.Code.Value, t)
		}
		j.report(missingCodeError(ref.Node.Get("code"), "agent", ref.Code.Value,
			"declare a replacement under functions in app.yaml, or write an agent here"))
	case ref.Use.Value != "":
		return j.resolveUse(ctx, ref, t)
	case ref.ConfigPath.Value != "":
		return j.resolveConfigPath(ctx, ref, t)
	case ref.Inline != nil:
		return j.resolveAgent(ctx, ref.Inline, t)
	}
	return nil
}

func (j *job) resolveUse(ctx context.Context, ref *runtime.AgentRef, t ancestry) *resolvedAgent {
	name := ref.Use.Value
	d, ok := j.names.agents[name]
	if !ok && j.appBroken {
		return nil // it may be declared in an unread file
	}
	if !ok {
		j.report(unknownNameError(ref.Node.Get("use"), "agent %s under agents", name, slices.Sorted(maps.Keys(j.names.agents))))
		return nil
	}
	mark := "use " + name
	if t.hasVisited(mark) {
		j.report(ref.Use.Errorf(0, "cycle", "agent %s contains itself: %s", name, formatCycle(t.visited, mark)))
		return nil
	}
	j.markUsed(d)
	return j.resolveAgent(ctx, addDefaultName(d.node, name), t.extendWith(d.file, mark))
}

// resolveConfigPath resolves a config_path. As in ADK, a path is relative to its file
// and must stay below the folder of that file (adk-python
// agents/config_agent_utils.py).
func (j *job) resolveConfigPath(ctx context.Context, ref *runtime.AgentRef, t ancestry) *resolvedAgent {
	given := ref.ConfigPath.Value
	fail := func(rule, format string, args ...any) *resolvedAgent {
		j.report(ref.ConfigPath.Errorf(0, rule, format, args...))
		return nil
	}
	rel := path.Clean(strings.TrimPrefix(given, "./"))
	if escapesFolder(given) {
		j.report(addSlashHint(ref.ConfigPath.Errorf(0, "path", "config_path %s is outside of the folder of this file", given), given))
		return nil
	}
	file := path.Join(path.Dir(t.file), rel)
	if t.hasVisited(file) {
		return fail("cycle", "agent file %s includes itself: %s", given, formatCycle(t.visited, file))
	}
	if !j.src.fileExists(file) {
		return fail("file", "%s", j.src.missingFileMessage(file))
	}
	return j.resolveAgentFile(ctx, file, t)
}

func formatCycle(passed []string, back string) string {
	from := slices.Index(passed, back)
	return strings.Join(append(slices.Clone(passed[from:]), back), " → ")
}

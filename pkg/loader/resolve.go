package loader

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/policy"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// job is one load of one app: it gathers what the files say and every problem
// on the way.
type job struct {
	loader *Loader
	src    *source
	ds     spec.Diagnostics

	doc     document
	appNode *spec.Node // app.yaml with its overlay; nil when there is none
	// partKeys are the keys of the parts that agents' files declare.
	partKeys []*spec.Node
	// appBroken says that app.yaml could not be read whole: what it would name
	// is not known.
	appBroken bool
	names     registry
	included  map[string]bool
	placed    int
	handOvers int
	models    map[string]model.LLM
	bare      map[string]bareModel
	plugins   []*runtime.Plugin
	used      map[*spec.Node]bool
	shared    map[*spec.Node]*placedTool // tools under tools: that are built, for all who use them
	closers   []func() error
	// cacheAt is where app.yaml asks for caching; nil when it does not.
	cacheAt *spec.Node

	summarizer model.LLM
	// guard says which addresses the app may name.
	guard *policy.Guard
	// sketch gathers what the app says; nil when nobody wants to know.
	sketch *Sketch
}

func newJob(l *Loader, src *source) *job {
	return &job{
		loader: l, src: src, names: newRegistry(), included: map[string]bool{}, models: map[string]model.LLM{}, bare: map[string]bareModel{},
		used: map[*spec.Node]bool{}, shared: map[*spec.Node]*placedTool{}, guard: l.opts.Policy.Guard(src.name),
	}
}

func (j *job) report(ds ...spec.Diagnostic) { j.ds = append(j.ds, ds...) }

// run is the whole load. It returns an app only when nothing stands in the way,
// and the tree as far as it is known.
func (j *job) run(ctx context.Context) (*runtime.App, *placed) {
	root := j.resolve(ctx)
	if root == nil || j.ds.HasErrors() || j.src.budget.isSpent() {
		j.close()
		return nil, root
	}
	return j.compile(ctx, root), root
}

// resolve reads and checks everything, and returns the tree of agents as far as
// it is known.
func (j *job) resolve(ctx context.Context) *placed {
	j.report(j.loader.checkAppName(j.src)...)
	if j.src.exists(appFile) || j.src.hasOverlay(j.loader.opts.Overlay) {
		j.readAppFile()
	}
	j.checkOdd()
	n, t := j.rootNode()
	j.buildModels(ctx)
	j.buildPlugins(ctx)
	j.checkDefaults()
	j.checkSchemas()
	var root *placed
	if n != nil {
		root = j.resolveAgent(ctx, n, t)
	}
	for _, check := range []func(){
		func() { j.checkUnused(ctx) },
		func() { j.checkCaching(ctx, root) },
		func() { j.resolveCompaction(ctx, root) },
		func() { j.checkCode(ctx, root, nil) },
		func() { j.checkState(root) },
		func() { j.checkFlow(root) },
		func() { j.checkTree(ctx, root) },
		func() { j.checkResumable(root) },
		j.checkSecrets,
	} {
		if j.src.budget.isSpent() {
			break // what is missing now may only not have been read
		}
		check()
	}
	return root
}

func (j *job) readAppFile() {
	n, ds := j.src.appDocument(j.loader.opts.Overlay)
	j.report(ds...)
	j.appBroken = n == nil || ds.HasErrors()
	if n == nil {
		return
	}
	j.appNode = n
	j.sketch.noteApp(n)
	ds = withAdvice(spec.Decode(n, &j.doc), n, appAdvice())
	j.cacheAt = n.Get("context_cache_config")
	if j.doc.ContextCache != nil && !ds.HasErrors() {
		ds = append(ds, j.doc.ContextCache.Check(j.cacheAt)...)
	}
	if j.doc.Reload != nil && !ds.HasErrors() {
		ds = append(ds, j.doc.Reload.Check(n.Get("reload"))...)
	}
	j.report(ds...)
	j.appBroken = j.appBroken || ds.HasErrors()
	if name := j.doc.Name; name.Value != "" && name.Value != j.src.name {
		d := name.Errorf(0, "app-name", "the app's name is that of its folder, %s", j.src.name)
		d.Hint = "leave name out, or rename the folder"
		j.report(d)
	}
	j.includeAll(j.doc.Include, appFile)
	j.declareParts(&j.doc.Parts, part{file: appFile})
}

// rootNode reads the root agent and declares the parts that its file brings.
// It is nil when there is none.
func (j *job) rootNode() (*spec.Node, trail) {
	ref := j.doc.RootAgent
	if ref != nil && ref.inline != nil {
		return ref.inline, trail{file: appFile}
	}
	file := agentFile
	if ref != nil && ref.file.Value != "" {
		file = path.Clean(ref.file.Value)
	}
	if ref != nil && !j.src.exists(file) {
		j.report(ref.file.Errorf(0, "file", "there is no file %s in the app's folder", file))
		return nil, trail{}
	}
	if ref == nil && !j.src.exists(file) {
		j.report(spec.Diagnostic{
			Pos: spec.Pos{File: j.src.display(appFile)}, Rule: "required",
			Message: "the app has no agent", Hint: j.hintAgent(),
		})
		return nil, trail{}
	}
	return j.agentFile(file, trail{}, true)
}

// hintAgent says how an app without an agent gets one.
func (j *job) hintAgent() string {
	for _, names := range misnamed() {
		if names[1] == agentFile && j.src.exists(names[0]) {
			return "rename " + names[0] + " to " + agentFile
		}
	}
	return "write a root_agent.yaml beside app.yaml, or the agent under root_agent:"
}

// trail is the way from the root to an agent: the file it stands in, and what
// was passed on the way, to find circles.
type trail struct {
	file   string
	passed []string
}

func (t trail) has(mark string) bool { return slices.Contains(t.passed, mark) }

func (t trail) into(file, mark string) trail {
	return trail{file: file, passed: append(slices.Clone(t.passed), mark)}
}

// agentFile reads a file with an agent, and declares what else is in it. The
// node is nil when the file holds no agent.
func (j *job) agentFile(file string, t trail, root bool) (*spec.Node, trail) {
	n, ds := j.src.document(file)
	j.report(ds...)
	if n == nil {
		return nil, t
	}
	if n.Kind != spec.Mapping {
		j.report(n.Errorf("type", "the file holds no agent: an agent is a mapping with a name"))
		return nil, t
	}
	return j.takeParts(n, file, root), t.into(file, file)
}

func (j *job) resolveFile(ctx context.Context, file string, t trail) *placed {
	n, t := j.agentFile(file, t, false)
	if n == nil {
		return nil
	}
	return j.resolveAgent(ctx, n, t)
}

// maxAgents bounds an app's tree: agents that use each other twice, level by
// level, would otherwise grow beyond any machine.
const maxAgents = 4000

// placed is an agent at its place in the tree, checked and not yet built.
type placed struct {
	plan spec.Plan[runtime.AgentEnv, runtime.Agent]
	name string
	// at is the reference that leads to the agent, and nil for the root; base is
	// its mapping as it was written, with the defaults of its class.
	at, base *spec.Node
	subs     []*placed
	tools    []*placedTool
	model    model.LLM

	callbacks runtime.Callbacks
	use       *lazyUse
}

// resolveAgent checks an agent and all below it. It is nil when the agent
// cannot be known at all; problems are reported either way.
func (j *job) resolveAgent(ctx context.Context, n *spec.Node, t trail) *placed {
	if j.placed++; j.placed > maxAgents {
		if j.placed == maxAgents+1 {
			j.report(n.Errorf("limit", "the app has more than %d agents, counted at every place that uses them", maxAgents))
		}
		return nil
	}
	if n.Kind != spec.Mapping || j.src.budget.isSpent() {
		return nil // reported already, when the list of agents was decoded, or at the end
	}
	place := j.sketch.reserve()
	if n = j.withClass(n); n == nil {
		return nil
	}
	kind, known := j.agentKind(n)
	base := j.withDefaults(n, kind.Name)
	n = j.effective(base)
	d := j.decoded(kind, n)
	plan := d.plan
	if known {
		j.report(d.ds...)
	} else {
		j.report(withoutClassRules(d.ds, n.Get("agent_class"))...)
	}
	p := &placed{plan: plan, name: j.checkName(n), base: base, callbacks: d.callbacks, use: d.use}
	if m, ok := plan.Config.(interface{ ModelName() spec.Text }); ok {
		p.model = j.modelOf(ctx, m.ModelName())
	}
	if m, ok := plan.Config.(interface{ CodeOfModel() *spec.Node }); ok && !m.CodeOfModel().IsNull() {
		p.model = j.codedModel(ctx, n)
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
	j.checkJoins(p)
	j.countHandOvers(p)
	if refs, ok := plan.Config.(interface{ ToolRefs() []*runtime.ToolRef }); ok {
		for _, ref := range refs.ToolRefs() {
			for _, pt := range j.resolveTool(ctx, ref, t) {
				pt.at = ref.Node
				p.tools = append(p.tools, pt)
			}
		}
	}
	j.checkToolNames(ctx, p)
	j.sketch.noteAgent(place, n, p.subs)
	return p
}

// decodedAgent is what an agent's mapping says by itself.
type decodedAgent struct {
	plan      spec.Plan[runtime.AgentEnv, runtime.Agent]
	callbacks runtime.Callbacks
	use       *lazyUse
	ds        spec.Diagnostics
}

type agentKey struct {
	class string
	node  *spec.Node
}

// decoded reads an agent's mapping. What has files that are no documents is read
// each time.
func (j *job) decoded(kind spec.Kind[runtime.AgentEnv, runtime.Agent], n *spec.Node) *decodedAgent {
	return recalled(j.src.recall, agentKey{kind.Name, n}, func() (*decodedAgent, bool) {
		d := &decodedAgent{}
		d.plan, d.ds = kind.Decode(n)
		d.ds = append(withAdvice(d.ds, n, agentAdvice()), checkConfig(d.plan.Config, n)...)
		alone := j.readFiles(d.plan.Config, &d.ds)
		d.ds = append(d.ds, j.bind(d.plan.Config)...)
		callbacks, ds := runtime.DecodeCallbacks(n, j.loader.opts.Functions.Callbacks)
		d.callbacks, d.ds = callbacks, append(d.ds, ds...)
		d.use = &lazyUse{find: func() tool.StateUse { return runtime.StateUse(n, d.plan.Config) }}
		return d, alone
	})
}

// bind lets a config find the program's functions that it names.
func (j *job) bind(config any) spec.Diagnostics {
	if c, ok := config.(interface {
		Bind(f *runtime.Functions) spec.Diagnostics
	}); ok {
		return c.Bind(&j.loader.opts.Functions)
	}
	return nil
}

// checkConfig asks a config for the problems that only it can see.
func checkConfig(config any, n *spec.Node) spec.Diagnostics {
	if c, ok := config.(interface {
		Check(n *spec.Node) spec.Diagnostics
	}); ok {
		return c.Check(n)
	}
	return nil
}

// agentKind finds an agent's class. Where it is not known, the error is reported
// and the rest of the agent is checked as one of the class that the name is near
// to, with known true, or else as an LlmAgent.
func (j *job) agentKind(n *spec.Node) (kind spec.Kind[runtime.AgentEnv, runtime.Agent], known bool) {
	kinds := j.loader.agentKinds
	fallback, _ := kinds.Lookup("LlmAgent")
	class := n.Get("agent_class")
	if class.IsNull() {
		return fallback, true
	}
	if class.Kind != spec.Scalar {
		j.report(class.Errorf("type", "an agent class is text, such as LoopAgent"))
		return fallback, false
	}
	name := adkClass(class.Value)
	if kind, ok := kinds.Lookup(name); ok {
		return kind, true
	}
	if strings.Contains(name, ".") {
		j.report(needsCode(class, "agent class", name,
			"say under functions: in app.yaml which agent stands in its place, or write this one with one of the classes "+strings.Join(kinds.Names(), ", ")))
		return fallback, false
	}
	j.report(unknown(class, "agent class %s", name, kinds.Names()))
	if near, ok := kinds.Lookup(spec.Suggest(name, kinds.Names())); ok {
		return near, true
	}
	return fallback, false
}

// withoutClassRules leaves out what follows from a class that is not known: which
// fields there are, which of them are required, and the class itself.
func withoutClassRules(ds spec.Diagnostics, class *spec.Node) spec.Diagnostics {
	return slices.DeleteFunc(slices.Clone(ds), func(d spec.Diagnostic) bool {
		return d.Rule == "unknown-field" || d.Rule == "required" || d.Pos == class.Pos
	})
}

// unknown words a name that is none of a list; what has %s for the name.
func unknown(at *spec.Node, what, name string, names []string) spec.Diagnostic {
	d := at.Errorf("unknown-name", "there is no %s; %s", fmt.Sprintf(what, name), thereAre(names))
	near := spec.Suggest(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, name+"_") }); near == "" && i >= 0 {
		near = names[i]
	}
	if near != "" {
		d = d.WithHint("did you mean %q?", near)
	}
	return d
}

// maxListed is how many names a message lists.
const maxListed = 50

func thereAre(names []string) string {
	switch len(names) {
	case 0:
		return "there are none"
	case 1:
		return "there is only " + names[0]
	}
	if len(names) > maxListed {
		return fmt.Sprintf("there are %s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return "there are " + strings.Join(names, ", ")
}

func (j *job) resolveRef(ctx context.Context, ref *runtime.AgentRef, t trail) *placed {
	switch {
	case ref.Code.Value != "":
		if f, ok := j.function(ref.Code.Value); ok {
			return j.mappedAgent(ctx, f, ref.Code.Value, t)
		}
		j.report(needsCode(ref.Node.Get("code"), "agent", ref.Code.Value,
			"say what stands in its place under functions: in app.yaml, or write an agent here"))
	case ref.Use.Value != "":
		return j.resolveUse(ctx, ref, t)
	case ref.ConfigPath.Value != "":
		return j.resolvePath(ctx, ref, t)
	case ref.Inline != nil:
		return j.resolveAgent(ctx, ref.Inline, t)
	}
	return nil
}

func (j *job) resolveUse(ctx context.Context, ref *runtime.AgentRef, t trail) *placed {
	name := ref.Use.Value
	d, ok := j.names.agents[name]
	if !ok && j.appBroken {
		return nil // it may well be in what could not be read
	}
	if !ok {
		j.report(unknown(ref.Node.Get("use"), "agent %s under agents", name, slices.Sorted(maps.Keys(j.names.agents))))
		return nil
	}
	mark := "use " + name
	if t.has(mark) {
		j.report(ref.Use.Errorf(0, "cycle", "agent %s stands below itself: %s", name, circle(t.passed, mark)))
		return nil
	}
	j.use(d)
	return j.resolveAgent(ctx, named(d.node, name), t.into(d.file, mark))
}

// resolvePath follows config_path. As in ADK, a path is relative to the file
// it stands in and stays below that file's folder
// (adk-python agents/config_agent_utils.py).
func (j *job) resolvePath(ctx context.Context, ref *runtime.AgentRef, t trail) *placed {
	given := ref.ConfigPath.Value
	fail := func(rule, format string, args ...any) *placed {
		j.report(ref.ConfigPath.Errorf(0, rule, format, args...))
		return nil
	}
	rel := path.Clean(strings.TrimPrefix(given, "./"))
	if leadsOut(given) {
		j.report(hintSlash(ref.ConfigPath.Errorf(0, "path", "config_path %s leads out of the folder of this file", given), given))
		return nil
	}
	file := path.Join(path.Dir(t.file), rel)
	if t.has(file) {
		return fail("cycle", "agent file %s stands below itself: %s", given, circle(t.passed, file))
	}
	if !j.src.exists(file) {
		return fail("file", "%s", j.src.missing(file))
	}
	return j.resolveFile(ctx, file, t)
}

func circle(passed []string, back string) string {
	from := slices.Index(passed, back)
	return strings.Join(append(slices.Clone(passed[from:]), back), " → ")
}

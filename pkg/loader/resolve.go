package loader

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// job is one load of one app: it gathers what the files say and every problem
// on the way.
type job struct {
	loader *Loader
	src    *source
	ds     spec.Diagnostics

	doc document
	// appBroken says that app.yaml could not be read whole: what it would name
	// is not known.
	appBroken bool
	agents    map[string]declared
	placed    int
	models    map[string]model.LLM
	plugins   []*runtime.Plugin
	used      map[*spec.Node]bool
	shared    map[*spec.Node]*placedTool // tools under tools: that are built, for all who use them
	closers   []func() error
	// cacheAt is where app.yaml asks for caching; nil when it does not.
	cacheAt *spec.Node

	summarizer model.LLM
}

func newJob(l *Loader, src *source) *job {
	return &job{
		loader: l, src: src, agents: map[string]declared{}, models: map[string]model.LLM{},
		used: map[*spec.Node]bool{}, shared: map[*spec.Node]*placedTool{},
	}
}

func (j *job) report(ds ...spec.Diagnostic) { j.ds = append(j.ds, ds...) }

// run is the whole load. It returns an app only when nothing stands in the way,
// and the tree as far as it is known.
func (j *job) run(ctx context.Context) (*runtime.App, *placed) {
	j.report(j.loader.checkAppName(j.src)...)
	if j.src.exists(appFile) {
		j.readAppFile()
	}
	j.buildModels(ctx)
	j.buildPlugins(ctx)
	root := j.resolveRoot(ctx)
	j.checkUnused(ctx)
	j.checkCaching(root)
	j.resolveCompaction(ctx, root)
	j.checkCode(root, nil)
	j.checkState(root)
	j.checkResumable(root)
	if root == nil || j.ds.HasErrors() {
		j.close()
		return nil, root
	}
	return j.compile(ctx, root), root
}

func (j *job) readAppFile() {
	n, ds := j.src.document(appFile)
	j.report(ds...)
	j.appBroken = n == nil || ds.HasErrors()
	if n == nil {
		return
	}
	ds = spec.Decode(n, &j.doc)
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
	j.declare(j.doc.Agents, appFile)
}

// declared is a named agent and the file that it stands in.
type declared struct {
	node *spec.Node
	file string
}

// declare makes named agents known. Names belong to the whole app.
func (j *job) declare(agents map[string]agentNode, file string) {
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		n := agents[name].node
		if old, taken := j.agents[name]; taken {
			if old.node.Pos != n.Pos {
				j.report(n.Errorf("clash", "the agent %s is there already, at %s", name, old.node.Pos))
			}
			continue
		}
		j.agents[name] = declared{n, file}
	}
}

func (j *job) resolveRoot(ctx context.Context) *placed {
	ref := j.doc.RootAgent
	if ref != nil && ref.inline != nil {
		return j.resolveAgent(ctx, ref.inline, trail{file: appFile})
	}
	file := agentFile
	if ref != nil && ref.file.Value != "" {
		file = path.Clean(ref.file.Value)
	}
	if ref != nil && !j.src.exists(file) {
		j.report(ref.file.Errorf(0, "file", "there is no file %s in the app's folder", file))
		return nil
	}
	if ref == nil && !j.src.exists(file) {
		j.report(spec.Diagnostic{
			Pos: spec.Pos{File: j.src.display(appFile)}, Rule: "required",
			Message: "the app has no agent", Hint: "write a root_agent.yaml beside app.yaml, or the agent under root_agent:",
		})
		return nil
	}
	return j.resolveFile(ctx, file, trail{})
}

// trail is the way from the root to an agent: the file it stands in, and what
// was passed on the way, to find circles.
type trail struct {
	file   string
	passed []string
}

func (t trail) into(file, mark string) trail {
	return trail{file: file, passed: append(slices.Clone(t.passed), mark)}
}

func (j *job) resolveFile(ctx context.Context, file string, t trail) *placed {
	n, ds := j.src.document(file)
	j.report(ds...)
	if n == nil {
		return nil
	}
	if n.Kind != spec.Mapping {
		j.report(n.Errorf("type", "the file holds no agent: an agent is a mapping with a name"))
		return nil
	}
	return j.resolveAgent(ctx, j.takeAgents(n, file), t.into(file, file))
}

// takeAgents declares the named agents that a file brings, and returns the
// file's own agent without them.
func (j *job) takeAgents(n *spec.Node, file string) *spec.Node {
	named := n.Get("agents")
	if named == nil || n.Get("agent_class") == nil && n.Get("name") == nil {
		return n
	}
	var c struct {
		Agents map[string]agentNode `yaml:"agents"`
	}
	rest := *n
	rest.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return e.Key.Value == "agents" })
	only := *n
	only.Entries = slices.DeleteFunc(slices.Clone(n.Entries), func(e spec.Entry) bool { return e.Key.Value != "agents" })
	j.report(spec.Decode(&only, &c)...)
	j.declare(c.Agents, file)
	return &rest
}

// maxAgents bounds an app's tree: agents that use each other twice, level by
// level, would otherwise grow beyond any machine.
const maxAgents = 10_000

// placed is an agent at its place in the tree, checked and not yet built.
type placed struct {
	plan  spec.Plan[runtime.AgentEnv, runtime.Agent]
	name  string
	subs  []*placed
	tools []*placedTool
	model model.LLM

	callbacks runtime.Callbacks
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
	if n.Kind != spec.Mapping {
		return nil // told already, when the list of agents was decoded
	}
	kind, ok := j.agentKind(n)
	if !ok {
		return nil
	}
	plan, ds := kind.Decode(n)
	j.report(ds...)
	j.report(checkConfig(plan.Config, n)...)
	j.readFiles(plan.Config)
	p := &placed{plan: plan, name: j.checkName(n)}
	p.callbacks, ds = runtime.DecodeCallbacks(n, j.loader.opts.Functions)
	j.report(ds...)
	if m, ok := plan.Config.(interface{ ModelName() spec.Text }); ok {
		p.model = j.modelOf(ctx, m.ModelName())
	}
	if refs, ok := plan.Config.(interface{ AgentRefs() []*runtime.AgentRef }); ok {
		for _, ref := range refs.AgentRefs() {
			if sub := j.resolveRef(ctx, ref, t); sub != nil {
				p.subs = append(p.subs, sub)
			}
		}
	}
	j.checkSiblings(p)
	j.checkJoins(p)
	if refs, ok := plan.Config.(interface{ ToolRefs() []*runtime.ToolRef }); ok {
		for _, ref := range refs.ToolRefs() {
			for _, pt := range j.resolveTool(ctx, ref, t) {
				pt.at = ref.Node
				p.tools = append(p.tools, pt)
			}
		}
	}
	j.checkToolNames(ctx, p)
	return p
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

// agentKind finds an agent's class. ADK allows the class with its package in
// front, in Python and in Java.
func (j *job) agentKind(n *spec.Node) (spec.Kind[runtime.AgentEnv, runtime.Agent], bool) {
	class := n.Get("agent_class")
	name := "LlmAgent"
	if class != nil && class.Kind != spec.Scalar {
		j.report(class.Errorf("type", "an agent class is text, such as LoopAgent"))
		return spec.Kind[runtime.AgentEnv, runtime.Agent]{}, false
	}
	if class != nil && !class.IsNull() {
		name = strings.TrimPrefix(strings.TrimPrefix(class.Value, "com."), "google.adk.agents.")
	}
	kind, ok := j.loader.agentKinds.Lookup(name)
	if ok {
		return kind, true
	}
	if strings.Contains(name, ".") {
		j.report(needsCode(class, "agent class", name))
	} else {
		j.report(unknown(class, "agent class %s", name, j.loader.agentKinds.Names()))
	}
	return kind, false
}

// unknown words a name that is none of a list; what has %s for the name.
func unknown(at *spec.Node, what, name string, names []string) spec.Diagnostic {
	d := at.Errorf("unknown-name", "there is no %s: there is %s", fmt.Sprintf(what, name), orNone(names))
	if near := spec.Suggest(name, names); near != "" {
		d = d.WithHint("did you mean %q?", near)
	}
	return d
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// needsCode words a dotted name that only a program could supply.
func needsCode(at *spec.Node, what, name string) spec.Diagnostic {
	return at.Errorf("code", "%s %s is code of another program, which this host does not have", what, name).
		WithHint("replace it by a tool or an agent written in YAML")
}

func (j *job) resolveRef(ctx context.Context, ref *runtime.AgentRef, t trail) *placed {
	switch {
	case ref.Code.Value != "":
		j.report(needsCode(ref.Node.Get("code"), "agent", ref.Code.Value))
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
	d, ok := j.agents[name]
	if !ok && j.appBroken {
		return nil // it may well be in what could not be read
	}
	if !ok {
		j.report(unknown(ref.Node.Get("use"), "agent %s under agents", name, slices.Sorted(maps.Keys(j.agents))))
		return nil
	}
	mark := "use " + name
	if slices.Contains(t.passed, mark) {
		j.report(ref.Use.Errorf(0, "cycle", "agent %s stands below itself: %s", name, circle(t.passed, mark)))
		return nil
	}
	j.used[d.node] = true
	return j.resolveAgent(ctx, named(d.node, name), t.into(d.file, mark))
}

// named gives an agent of agents: the name of its key when it has none.
func named(n *spec.Node, name string) *spec.Node {
	if n.Kind != spec.Mapping || n.Get("name") != nil {
		return n
	}
	key, value := *n, *n
	key.Kind, key.Tag, key.Value, key.Entries = spec.Scalar, "!!str", "name", nil
	value.Kind, value.Tag, value.Value, value.Entries = spec.Scalar, "!!str", name, nil
	with := *n
	with.Entries = append([]spec.Entry{{Key: &key, Value: &value}}, n.Entries...)
	return &with
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
	if path.IsAbs(given) || strings.Contains(given, "\\") || rel == ".." || strings.HasPrefix(rel, "../") {
		return fail("path", "config_path %s leads out of the folder of this file", given)
	}
	file := path.Join(path.Dir(t.file), rel)
	if slices.Contains(t.passed, file) {
		return fail("cycle", "agent file %s stands below itself: %s", given, circle(t.passed, file))
	}
	if !j.src.exists(file) {
		return fail("file", "there is no file %s", j.src.display(file))
	}
	return j.resolveFile(ctx, file, t)
}

func circle(passed []string, back string) string {
	from := slices.Index(passed, back)
	return strings.Join(append(slices.Clone(passed[from:]), back), " → ")
}

// checkUnused looks at named agents and tools that nothing uses: their problems
// are problems too.
func (j *job) checkUnused(ctx context.Context) {
	// Whoever uses it may stand in what is wrong.
	sure := !j.ds.HasErrors()
	for _, name := range slices.Sorted(maps.Keys(j.agents)) {
		d := j.agents[name]
		if j.used[d.node] {
			continue
		}
		if sure {
			j.report(d.node.Warnf("unused", "agent %s is used nowhere", name))
		}
		j.resolveAgent(ctx, named(d.node, name), trail{file: d.file, passed: []string{"use " + name}})
	}
	for _, name := range slices.Sorted(maps.Keys(j.doc.Tools)) {
		n := j.doc.Tools[name].node
		if j.used[n] {
			continue
		}
		if sure {
			j.report(n.Warnf("unused", "tool %s is used nowhere", name))
		}
		j.declaredTool(ctx, n, trail{})
	}
}

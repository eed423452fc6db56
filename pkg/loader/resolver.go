package loader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"agenthost/internal/agentconfig"
	"agenthost/internal/policy"
	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// An appModel is the resolved app: its documents, declarations, agents and
// tools, validated but not built. Rules check it, the compiler builds it, and outlines,
// exports and comparisons read it.
type appModel struct {
	doc     document
	appNode *spec.Node // app.yaml with its overlay; nil if there is none
	names   registry
	// partKeys are the keys of declarations in agents' files.
	partKeys []*spec.Node
	used     map[*spec.Node]bool
	// unused are the declarations that no agent uses, if the app was valid when they were
	// found: the user of a declaration may have errors.
	unused []unusedPart
	// choosesTool reports that a variable names a tool to use, so that any declared tool
	// may be used.
	choosesTool bool
	// documents are the merged documents that were decoded.
	documents []*spec.Node

	root *resolvedAgent // nil if it could not be resolved
	// agents are all resolved agents, once for each use, descendants first; slots is the
	// number of their slots.
	agents []*resolvedAgent
	slots  int

	plugins    []*runtime.Plugin
	summarizer model.LLM
	// defaultModel returns the model of agents that neither name nor inherit one. It is
	// built on first use.
	defaultModel func() model.LLM
	// builtinTools are the names of all built-in tools.
	builtinTools []string
	// listModelLimits returns the context limits of a model by its name in the app.
	listModelLimits func(name string) []namedLimits
	// findGeminiToolRefuser returns the name of a model that refuses tools of Gemini's.
	findGeminiToolRefuser func(name string) string
}

// An unusedPart is a declaration that nothing uses, with its kind and name.
type unusedPart struct {
	kind, name string
	node       *spec.Node
}

// contextCacheNode returns the context cache setting of app.yaml, or nil.
func (a *appModel) contextCacheNode() *spec.Node { return a.appNode.Get("context_cache_config") }

// isResumable reports whether the app or its root agent enables resumable invocations.
func (a *appModel) isResumable() bool {
	if a.doc.Resumability.Resumable() {
		return true
	}
	n := a.root.plan.Node.Get(resumabilityKey)
	if n.IsNull() {
		return false
	}
	var c agentconfig.ResumabilityConfig
	c.DecodeSpec(n) // problems were reported when the agent was decoded
	return c.Resumable()
}

// resumabilityKey is the key of the setting in app.yaml and on the root agent.
const resumabilityKey = "resumability_config"

// stateSchema returns the state schema of the app, which the root agent declares.
func (a *appModel) stateSchema() *tool.StateSchema {
	n := a.root.plan.Node.Get("state_schema")
	if n.IsNull() {
		return nil
	}
	var c agentconfig.StateSchemaConfig
	c.DecodeSpec(n) // problems were reported when the agent was decoded
	return c.Schema
}

// A resolver reads the documents of one app and fills its model. It reports all problems
// of files, names and settings; [rules] check the whole model afterwards. Its parts have what
// only they need: the declarations of the documents, and the models.
type resolver struct {
	*appLoad
	*declarationReader
	*modelResolver

	agentCount    int
	transferPairs int
	// connections are the decoded connections; invalid ones are nil.
	connections map[*spec.Node]connection.Config
	sharedTools map[sharedToolKey]*resolvedTool // built tools under tools, shared by their users
}

// An appLoad is one load of an app: what all parts of its resolver read, and the problems
// that they report.
type appLoad struct {
	loader *Loader
	src    *source
	app    *appModel
	ds     spec.Diagnostics

	// appBroken reports that app.yaml could not be parsed completely, so that
	// declarations may be missing.
	appBroken bool
	held      heldResources
	// guard decides which addresses the app may use.
	guard *policy.Guard
}

// A declarationReader registers the declarations of documents, and replaces their names in
// agents.
type declarationReader struct {
	*appLoad
	included map[string]bool
}

// A modelResolver builds the models that an app declares or names.
type modelResolver struct {
	*appLoad
	models     map[string]model.LLM
	modelPlans map[string]modelPlan
	bareModels map[string]bareModel
	// buildingModels are the models being built, outermost first.
	buildingModels []string
}

func newResolver(l *Loader, src *source) *resolver {
	load := &appLoad{
		loader: l, src: src, guard: l.opts.Policy.Guard(src.name), held: heldResources{app: src.name, logger: l.opts.Logger},
		app: &appModel{names: newRegistry(), used: map[*spec.Node]bool{}, builtinTools: l.kinds.Builtins.Names()},
	}
	r := &resolver{
		appLoad: load, declarationReader: &declarationReader{load, map[string]bool{}},
		modelResolver: &modelResolver{appLoad: load, models: map[string]model.LLM{}, modelPlans: map[string]modelPlan{}, bareModels: map[string]bareModel{}},
		connections:   map[*spec.Node]connection.Config{}, sharedTools: map[sharedToolKey]*resolvedTool{},
	}
	r.app.listModelLimits = r.listModelLimits
	r.app.findGeminiToolRefuser = r.findGeminiToolRefuser
	return r
}

// heldResources are the resources that one load has acquired: an app's, once it is built.
type heldResources struct {
	app     string
	logger  *slog.Logger
	closers []func() error
}

func (h *heldResources) add(release func() error) { h.closers = append(h.closers, release) }

// close releases the resources, the last one first.
func (h *heldResources) close() {
	var errs []error
	for _, release := range slices.Backward(h.closers) {
		errs = append(errs, release())
	}
	if err := errors.Join(errs...); err != nil {
		h.logger.Warn("failed to close app", "app", h.app, "error", err)
	}
}

func (r *appLoad) report(ds ...spec.Diagnostic) { r.ds = append(r.ds, ds...) }

// reportBuildError reports a build error, at its own position if the builder returns
// one.
func (r *appLoad) reportBuildError(n *spec.Node, rule string, err error) {
	var ds spec.Diagnostics
	if errors.As(err, &ds) {
		r.report(ds...)
		return
	}
	r.report(n.Errorf(rule, "%s", err))
}

// markUsed marks a declaration as used. References in an included declaration are
// expanded only now, so that apps need not define the variables of unused ones.
func (r *appLoad) markUsed(p part) {
	if r.app.used[p.node] {
		return
	}
	r.app.used[p.node] = true
	if p.shared {
		r.report(r.src.fillReferences(p.node)...)
	}
}

// findFunction returns the entry of functions: for a name of code.
func (r *appLoad) findFunction(name string) (part, bool) {
	f, ok := r.app.names.functions[name]
	if ok {
		r.markUsed(f)
	}
	return f, ok
}

// ancestry is the path from the root to an agent: the current file, and the files and
// names on the path, to detect cycles.
type ancestry struct {
	file    string
	visited []string
	// hasOtherTools is set for a tool of an agent with more than one.
	hasOtherTools bool
}

func (t ancestry) hasVisited(mark string) bool { return slices.Contains(t.visited, mark) }

func (t ancestry) extendWith(file, mark string) ancestry {
	return ancestry{file: file, visited: append(slices.Clone(t.visited), mark)}
}

func formatCycle(passed []string, back string) string {
	from := slices.Index(passed, back)
	return strings.Join(append(slices.Clone(passed[from:]), back), " → ")
}

// resolvedAgent is an agent at its position in the tree, validated but not built.
type resolvedAgent struct {
	plan spec.Plan[agentconfig.AgentEnv, runtime.Agent]
	name string
	// at is the reference to the agent, nil for the root. base is the mapping as
	// written, with the defaults of its class.
	at, base *spec.Node
	subs     []*resolvedAgent
	tools    []*resolvedTool
	prompts  tool.PromptSource         // of its instruction; nil if there is none
	executor *agentconfig.ExecutorPlan // of a kind; nil if there is none
	model    model.LLM
	// modelRef is the name of its own model, or "".
	modelRef string

	callbacks runtime.Callbacks
	use       *lazyStateUse
	// slot is the position of the agent in the order of the documents.
	slot int
}

// modelName returns the model that an agent names, and whether its class has a model.
func (p *resolvedAgent) modelName() (spec.Text, bool) {
	c, ok := p.plan.Config.(agentconfig.ModelConfig)
	if !ok {
		return spec.Text{}, false
	}
	return c.ModelName(), true
}

// visitTree visits an agent and its descendants, including agents called as tools.
func (p *resolvedAgent) visitTree(visit func(*resolvedAgent)) {
	visit(p)
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		sub.visitTree(visit)
	}
}

// workflowEdges returns the edges of a workflow, whose nodes are the sub-agents.
func workflowEdges(p *resolvedAgent) []runtime.Edge {
	c, ok := p.plan.Config.(agentconfig.EdgeConfig)
	if !ok {
		return nil
	}
	return c.WorkflowEdges()
}

// resolvedTool is a validated tool of an agent. Its set is built, unless it waits for
// the agent that it calls.
type resolvedTool struct {
	at  *spec.Node // where the agent names it
	set tool.Set
	// kind is the kind of the tool, or the name of the built-in tool.
	kind string
	// config and node are the settings of the set.
	config any
	node   *spec.Node
	plan   spec.Plan[agentconfig.AgentToolEnv, tool.Set]
	agent  *resolvedAgent
	use    *lazyStateUse

	// tools are the tools of the set, if it has listed them, and names their names for the
	// model. The name of an agent as a tool is that of the agent.
	tools  []tool.Tool
	listed bool
	names  []string
}

// isDynamic reports whether the tools are unknown until a run lists them.
func (t *resolvedTool) isDynamic() bool { return t.set != nil && tool.Dynamic(t.set) }

// listTools lists the tools of the set and their names for the model. A set that cannot
// list its tools now has none; the run reports the error.
func (t *resolvedTool) listTools(ctx context.Context) {
	switch {
	case t.isDynamic():
		return
	case t.agent != nil:
		t.names = []string{t.agent.name}
		return
	}
	tools, err := t.set.Tools(ctx)
	if err != nil {
		return
	}
	t.tools, t.listed = tools, true
	t.names = make([]string, len(tools))
	for i, one := range tools {
		t.names[i] = one.Declaration().Name
	}
}

func toolAgents(tools []*resolvedTool) []*resolvedAgent {
	var agents []*resolvedAgent
	for _, t := range tools {
		if t.agent != nil {
			agents = append(agents, t.agent)
		}
	}
	return agents
}

// A lazyStateUse is computed on first use.
type lazyStateUse struct {
	find  func() tool.StateUse
	found *tool.StateUse
}

func (u *lazyStateUse) get() tool.StateUse {
	if u.found == nil {
		use := u.find()
		u.found = &use
	}
	return *u.found
}

// newLazyUse returns the state use of a tool with this config.
func newLazyUse(config any, n *spec.Node) *lazyStateUse {
	return &lazyStateUse{find: func() tool.StateUse {
		if c, ok := config.(tool.StateConfig); ok {
			return c.StateUse(n)
		}
		return tool.StateUse{}
	}}
}

// collectStateUse returns the state use of the tool, without the agent that it calls.
func (t *resolvedTool) collectStateUse() tool.StateUse {
	if t.use == nil {
		return tool.StateUse{Opaque: t.kind == ""} // a registered tool
	}
	return t.use.get()
}

// cachedStateUse returns the state use of the agent itself, including its callbacks.
func (p *resolvedAgent) cachedStateUse() tool.StateUse { return p.use.get() }

// A bareModel is a declared model without its fallbacks.
type bareModel struct {
	model     model.LLM
	fallbacks []provider.FallbackRef
	resolved  model.LLM // with its fallbacks; nil until it is needed
}

// wrappedSet is a set of wrapped tools.
type wrappedSet struct {
	tool.Set
	wrap func(tool.Tool) tool.Tool
}

// Dynamic reports whether the wrapped set is dynamic.
func (s wrappedSet) Dynamic() bool { return tool.Dynamic(s.Set) }

var _ tool.SessionSet = wrappedSet{}

// Tools returns the wrapped tools of the set.
func (s wrappedSet) Tools(ctx context.Context) ([]tool.Tool, error) {
	return s.wrapTools(s.Set.Tools(ctx))
}

// ListTools returns the wrapped tools of the set for a session.
func (s wrappedSet) ListTools(ctx context.Context, call *tool.Call) ([]tool.Tool, error) {
	return s.wrapTools(tool.ListTools(ctx, s.Set, call))
}

// wrapTools does not wrap tools that edit requests, like those of the host.
func (s wrappedSet) wrapTools(tools []tool.Tool, err error) ([]tool.Tool, error) {
	if err != nil {
		return nil, err
	}
	wrapped := make([]tool.Tool, len(tools))
	for i, t := range tools {
		wrapped[i] = t
		if _, edits := t.(tool.RequestEditor); !edits {
			wrapped[i] = s.wrap(t)
		}
	}
	return wrapped, nil
}

func (r *appLoad) reportIrregularFile(file string) {
	r.report(spec.Diagnostic{
		Pos: spec.Pos{File: r.src.displayPath(file)}, Rule: "file",
		Message: "not a regular file of the app: it is a folder, a pipe, a device, or a link out of the app folder",
	})
}

package loader

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"agenthost/internal/policy"
	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// Resolving turns documents into an [appModel], depth first from the root agent:
//
//	resolveApp      app.yaml → root agent's file → models → plugins → agents → unused parts → rules
//	resolveAgent    compose (declarations.go) → decode → model → sub-agents → tools → append
//
// An agent that is used in several places is resolved once per use, because a runtime agent has one
// parent. The decoded mapping is cached by node, so each further use is cheap, and maxAgents bounds
// the total. A graph with a separate cycle search was not needed: names are followed along the
// ancestry, the path from the root, which finds a cycle where it closes and has it for the message.
//
// Invariants:
//   - Resolving continues after a problem, so that one load reports all problems. A nil result means
//     that the problem is reported, or that a limit is exceeded, which is reported once at the end.
//   - No problem is reported that only follows from another: while app.yaml is broken (appBroken)
//     or the budget is exceeded, a missing name may be declared in an unread part.
//   - An agent is appended after its descendants, so appModel.agents lists leaves first, and
//     slots count the agents in document order.
//   - Whatever is opened is in held: the app owns it, or the load closes it if there are errors.
//   - Rules see the whole model, after all names are resolved.

// A resolver reads one app's documents and fills its model. It reports all problems with files,
// names and settings; [rules] check the whole model afterwards. Its parts have what only they need:
// the documents' declarations, and the models.
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

// An appLoad is one load of an app: what its resolver's parts all read, and the problems that they
// report.
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

// A declarationReader registers the documents' declarations, and replaces their names in agents.
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

// markUsed marks a declaration as used. References in an included declaration are expanded only
// now, so that apps need not define variables for unused ones.
func (r *appLoad) markUsed(p part) {
	if r.app.used[p.node] {
		return
	}
	r.app.used[p.node] = true
	if p.shared {
		r.report(r.src.fillReferences(p.node)...)
	}
}

// findFunction returns the functions: entry for a code name.
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
	// hasOtherTools is set if the agent has more tools than this one.
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

// A bareModel is a declared model without its fallbacks.
type bareModel struct {
	model     model.LLM
	fallbacks []provider.FallbackRef
	resolved  model.LLM // with its fallbacks; nil until it is needed
}

// wrappedSet is a set with wrapped tools.
type wrappedSet struct {
	tool.Set
	wrap func(tool.Tool) tool.Tool
}

// Dynamic reports whether the wrapped set is dynamic.
func (s wrappedSet) Dynamic() bool { return tool.Dynamic(s.Set) }

var (
	_ tool.SessionSet = wrappedSet{}
	_ tool.FinderSet  = wrappedSet{}
)

// Tools returns the set's wrapped tools.
func (s wrappedSet) Tools(ctx context.Context) ([]tool.Tool, error) {
	return s.wrapTools(s.Set.Tools(ctx))
}

// ListTools returns the set's wrapped tools for a session.
func (s wrappedSet) ListTools(ctx context.Context, call *tool.Call) ([]tool.Tool, error) {
	return s.wrapTools(tool.ListTools(ctx, s.Set, call))
}

// FindTool returns one of the set's tools, wrapped.
func (s wrappedSet) FindTool(ctx context.Context, call *tool.Call, name string) (tool.Tool, error) {
	found, err := tool.FindTool(ctx, s.Set, call, name)
	if err != nil {
		return nil, err
	}
	tools, err := s.wrapTools([]tool.Tool{found}, nil)
	return tools[0], err
}

// wrapTools does not wrap tools that edit requests, like the host's tools.
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
		Message: "not a regular app file: it is a folder, a pipe, a device, or a link that leaves the app folder",
	})
}

// A sharedToolKey identifies a tool under tools: it may be another one in an agent with more
// tools.
type sharedToolKey struct {
	node          *spec.Node
	hasOtherTools bool
}

// modelPlan is a built model's config.
type modelPlan struct {
	kind   string
	config any
	node   *spec.Node
	at     spec.Text
	llm    model.LLM
	limits provider.ContextLimits
	priced bool
}

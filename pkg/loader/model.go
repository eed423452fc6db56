package loader

import (
	"context"
	"errors"
	"slices"
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

// reportBuildError reports a build error, at its own position if the builder returns
// one.
func (j *job) reportBuildError(n *spec.Node, rule string, err error) {
	var ds spec.Diagnostics
	if errors.As(err, &ds) {
		j.report(ds...)
		return
	}
	j.report(n.Errorf(rule, "%s", err))
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

func formatCycle(passed []string, back string) string {
	from := slices.Index(passed, back)
	return strings.Join(append(slices.Clone(passed[from:]), back), " → ")
}

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

// visitTree visits an agent and its descendants, including agents called as tools.
func (p *resolvedAgent) visitTree(visit func(*resolvedAgent)) {
	visit(p)
	for _, sub := range slices.Concat(p.subs, toolAgents(p.tools)) {
		sub.visitTree(visit)
	}
}

// workflowEdges returns the edges of a workflow, whose nodes are the sub-agents.
func workflowEdges(p *resolvedAgent) []runtime.Edge {
	c, ok := p.plan.Config.(interface{ WorkflowEdges() []runtime.Edge })
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
	plan   spec.Plan[runtime.AgentToolEnv, tool.Set]
	agent  *resolvedAgent
	use    *lazyStateUse
}

// isDynamic reports whether the tools are unknown until a run lists them.
func (t *resolvedTool) isDynamic() bool { return t.set != nil && tool.Dynamic(t.set) }

// listToolNames returns the names of the tools for the model. A set that cannot list
// its tools now has none; the run reports the error.
func (t *resolvedTool) listToolNames(ctx context.Context) []string {
	if t.isDynamic() {
		return nil
	}
	if t.agent != nil {
		return []string{t.agent.name}
	}
	tools, err := t.set.Tools(ctx)
	if err != nil {
		return nil
	}
	names := make([]string, len(tools))
	for i, one := range tools {
		names[i] = one.Declaration().Name
	}
	return names
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

// stateSchema returns the state schema of the app, which the root agent declares.
func stateSchema(root *resolvedAgent) *tool.StateSchema {
	n := root.plan.Node.Get("state_schema")
	if n.IsNull() {
		return nil
	}
	var c runtime.StateSchemaConfig
	c.DecodeSpec(n) // problems were reported when the agent was decoded
	return c.Schema
}

// stateUser is the config of a tool that uses the state.
type stateUser interface {
	StateUse(n *spec.Node) tool.StateUse
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
		if c, ok := config.(stateUser); ok {
			return c.StateUse(n)
		}
		return tool.StateUse{}
	}}
}

// stateUse returns the state use of the tool, without the agent that it calls.
func (t *resolvedTool) stateUse() tool.StateUse {
	if t.use == nil {
		return tool.StateUse{Opaque: t.kind == ""} // a registered tool
	}
	return t.use.get()
}

// stateUse returns the state use of the agent itself, including its callbacks.
func (p *resolvedAgent) stateUse() tool.StateUse { return p.use.get() }

// A bareModel is a declared model without its fallbacks.
type bareModel struct {
	model     model.LLM
	fallbacks []spec.Text
}

// markUsed marks a declaration as used. References in an included declaration are
// expanded only now, so that apps need not define the variables of unused ones.
func (j *job) markUsed(p part) {
	if j.used[p.node] {
		return
	}
	j.used[p.node] = true
	if p.shared {
		j.report(j.src.fillReferences(p.node)...)
	}
}

package loader

import (
	"context"
	"slices"

	"agenthost/internal/agentconfig"
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
	// partKeys are the declaration keys in agent files.
	partKeys []*spec.Node
	used     map[*spec.Node]bool
	// unused are the declarations that no agent uses, if the app was valid when they were found: an
	// agent that uses one may have errors.
	unused []unusedPart
	// choosesTool reports that a variable names a tool to use, so that any declared tool
	// may be used.
	choosesTool bool
	// documents are the merged documents that were decoded.
	documents []*spec.Node

	root *resolvedAgent // nil if it could not be resolved
	// agents are all resolved agents, once per use, descendants first; slots is their slot count.
	agents []*resolvedAgent
	slots  int

	plugins  []*runtime.Plugin
	sections []section
	// skills are those that the tools use, by folder.
	skills     map[string]tool.Skill
	summarizer model.LLM
	// defaultModel returns the model for agents that neither name nor inherit one. It is built on
	// first use.
	defaultModel func() model.LLM
	// builtinTools are all built-in tool names.
	builtinTools []string
	// listModelLimits returns a model's context limits by its name in the app.
	listModelLimits func(name string) []namedLimits
	// findGeminiToolRefuser returns the name of a model that rejects Gemini's tools.
	findGeminiToolRefuser func(name string) (refuser string, isFallback bool)
}

// An unusedPart is a declaration that nothing uses, with its kind and name.
type unusedPart struct {
	kind, name string
	node       *spec.Node
}

// contextCacheNode returns app.yaml's context cache setting, or nil.
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

// resumabilityKey is the setting's key in app.yaml and on the root agent.
const resumabilityKey = "resumability_config"

// stateSchema returns the app's state schema, which the root agent declares.
func (a *appModel) stateSchema() *tool.StateSchema {
	n := a.root.plan.Node.Get("state_schema")
	if n.IsNull() {
		return nil
	}
	var c agentconfig.StateSchemaConfig
	c.DecodeSpec(n) // problems were reported when the agent was decoded
	return c.Schema
}

// resolvedAgent is an agent at its position in the tree, validated but not built.
type resolvedAgent struct {
	plan spec.Plan[agentconfig.AgentEnv, runtime.Agent]
	name string
	// at is the reference to the agent, nil for the root. base is the mapping as written, with its
	// class defaults.
	at, base *spec.Node
	subs     []*resolvedAgent
	tools    []*resolvedTool
	prompts  tool.PromptSource         // for its instruction; nil without one
	executor *agentconfig.ExecutorPlan // from a kind; nil without one
	server   []*resolvedTool           // a ServerConfig's, at most one
	model    model.LLM
	// wrapModel wraps the model that the agent makes of its server; nil without one.
	wrapModel func(model.LLM) model.LLM
	// modelRef is its own model's name, or "".
	modelRef string

	callbacks runtime.Callbacks
	use       *lazyStateUse
	// slot is the agent's position in document order.
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

// workflowEdges returns the edges between a workflow's nodes, its sub-agents.
func workflowEdges(p *resolvedAgent) []runtime.Edge {
	c, ok := p.plan.Config.(agentconfig.EdgeConfig)
	if !ok {
		return nil
	}
	return c.WorkflowEdges()
}

// resolvedTool is a validated tool that belongs to an agent. Its set is built, unless it waits for
// the agent that it calls.
type resolvedTool struct {
	at  *spec.Node // where the agent names it
	set tool.Set
	// kind is the tool's kind, or the built-in tool's name.
	kind string
	// config and node are the set's settings.
	config any
	node   *spec.Node
	plan   spec.Plan[agentconfig.AgentToolEnv, tool.Set]
	agent  *resolvedAgent
	use    *lazyStateUse

	// tools are the set's tools, if it has listed them, and names their names for the model. An
	// agent tool has the agent's name.
	tools  []tool.Tool
	listed bool
	names  []string
}

// isDynamic reports whether the tools are unknown until a run lists them.
func (t *resolvedTool) isDynamic() bool { return t.set != nil && tool.Dynamic(t.set) }

// listTools lists the set's tools and their names for the model. A set that cannot list its tools
// now has none; the run reports the error.
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

// newLazyUse returns the state use for a tool with this config.
func newLazyUse(config any, n *spec.Node) *lazyStateUse {
	return &lazyStateUse{find: func() tool.StateUse {
		if c, ok := config.(tool.StateConfig); ok {
			return c.StateUse(n)
		}
		return tool.StateUse{}
	}}
}

// collectStateUse returns the tool's state use, without the agent that it calls.
func (t *resolvedTool) collectStateUse() tool.StateUse {
	if t.use == nil {
		return tool.StateUse{Opaque: t.kind == ""} // a registered tool
	}
	return t.use.get()
}

// cachedStateUse returns the agent's own state use, including its callbacks.
func (p *resolvedAgent) cachedStateUse() tool.StateUse { return p.use.get() }

// namedLimits are a model's context limits.
type namedLimits struct {
	model string
	provider.ContextLimits
}

func isLLMAgent(p *resolvedAgent) bool { return p.plan.Kind.Name == "LlmAgent" }

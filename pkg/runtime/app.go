package runtime

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
	"unique"

	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

// An App is an immutable snapshot of one deployed app. Runs hold the snapshot
// that they began with; when a newer one takes its place in the host, the old
// one closes after its last run.
type App struct {
	Name string
	// Description says what the app is for.
	Description string
	// Revision is the content hash of all that the app was built from; empty
	// for apps that Go code built.
	Revision string
	// Root is the agent at the top of the tree.
	Root Agent
	// Config is how invocations run unless a request says otherwise.
	Config RunConfig
	// ContextCache has models keep the contents that requests begin with; nil
	// is not to.
	ContextCache *ContextCacheConfig
	// Resumable is that of its options.
	Resumable bool
	// Retention is how long a session is kept after its last event; 0 is for
	// ever. Whoever serves the app sees to it.
	Retention time.Duration
	// Reload is what becomes of changes of the app's files.
	Reload ReloadConfig

	nodes    map[Agent]*node
	rootNode *node
	plugins  []*Plugin
	state    *tool.StateSchema
	refs     refCount

	compactor *compactor // nil: nothing is summarised
}

// AppOptions are what an app may be given besides its tree.
type AppOptions struct {
	// Description is empty for the root agent's.
	Description string
	Revision    string
	// Config is nil for [DefaultRunConfig].
	Config *RunConfig
	// ContextCache is nil for no caching.
	ContextCache *ContextCacheConfig
	// Retention is how long a session is kept after its last event; 0 is for
	// ever.
	Retention time.Duration
	// Model serves LLM agents that neither name a model nor have an ancestor
	// that does.
	Model model.LLM
	// Compaction replaces the older part of conversations by summaries; nil is
	// never.
	Compaction *CompactionConfig
	// Summarizer writes the summaries; nil is the root agent's model.
	Summarizer model.LLM
	// StateSchema types the keys of the state; nil types none.
	StateSchema *tool.StateSchema
	// Reload is nil for [DefaultReloadConfig].
	Reload *ReloadConfig
	// Resumable lets invocations be resumed after they were cut off, or pause
	// until somebody answers. Events then tell how far each agent is.
	Resumable bool
	// Close ends what the app holds open. It is called once, after the last run.
	Close func()
	// Plugins take part in every run, in this order; their names are unique.
	Plugins []*Plugin
	// Logger is told of plugins that cannot be closed; nil is silent.
	Logger *slog.Logger
}

// NewApp makes a snapshot of a tree of agents. It fails when the same agent
// stands in two places, or an LLM agent has no model to use.
func NewApp(name string, root Agent, opts *AppOptions) (*App, error) {
	if opts == nil {
		opts = &AppOptions{}
	}
	a := &App{
		Name: name, Description: root.Description(), Revision: opts.Revision, Root: root,
		Config: DefaultRunConfig(), Reload: DefaultReloadConfig(), nodes: map[Agent]*node{}, state: opts.StateSchema, refs: refCount{onLastRelease: opts.Close},
		ContextCache: opts.ContextCache, Retention: opts.Retention, Resumable: opts.Resumable,
	}
	if err := a.registerPlugins(opts); err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	if opts.Description != "" {
		a.Description = opts.Description
	}
	if opts.Config != nil {
		if err := opts.Config.validateConfig(); err != nil {
			return nil, fmt.Errorf("app %s: %w", name, err)
		}
		a.Config = *opts.Config
	}
	if opts.Reload != nil {
		a.Reload = *opts.Reload
	}
	a.refs.count.Store(1)
	top, err := a.addToTree(root, nil, opts.Model)
	if err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	a.rootNode = top
	if a.compactor, err = newCompactor(opts, top); err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	if err := a.prepareTools(top); err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	return a, nil
}

// node is an agent's place in the tree, and what follows from that place.
type node struct {
	agent    Agent
	parent   *node
	children []*node
	// branch is where the agent runs beside its siblings, below no branch.
	branch string

	when         *Condition
	llm          model.LLM
	transferable bool
	// tools are those that are always the same, fixed, and sets have more of them.
	tools           *toolbox
	staticTools     []tool.Tool
	toolsets        []tool.Set
	delimiters      unique.Handle[shownDelimiters]
	transferTargets []*node
	// transferText tells whom the agent may hand over to, behind what else the
	// system instruction says of the agent's own tools. Where many are peers it
	// is long, and so it is made when it is first asked for.
	transferText func() string
	// fixedRequest is made when it is first asked for, too.
	fixedRequest   func() *fixedRequest
	responseSchema map[string]any
	// hooks are nil where no callback applies.
	hooks *hooks
}

func (a *App) addToTree(agent Agent, parent *node, inherited model.LLM) (*node, error) {
	if a.nodes[agent] != nil {
		return nil, fmt.Errorf("agent %s stands in two places of the tree", agent.Name())
	}
	if err := checkJoin(agent, parent); err != nil {
		return nil, err
	}
	n := &node{agent: agent, parent: parent, when: findCondition(agent), llm: inherited}
	if parent != nil {
		n.branch = parent.agent.Name() + "." + agent.Name()
	}
	a.nodes[agent] = n
	n.hooks = a.collectHooks(agent)
	if l, ok := agent.(*LLMAgent); ok {
		if l.opts.Model != nil {
			n.llm = l.opts.Model
		}
		if n.llm == nil {
			return nil, fmt.Errorf("agent %s has no model, and no agent above it has one", agent.Name())
		}
		n.transferable = !l.opts.DisallowTransferToParent && (parent == nil || parent.transferable)
	}
	for _, sub := range agent.SubAgents() {
		child, err := a.addToTree(sub, n, n.llm)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, child)
	}
	return n, nil
}

// prepareTools gives each LLM agent its tools and transfer targets, once the whole
// tree stands.
func (a *App) prepareTools(n *node) error {
	if l, ok := n.agent.(*LLMAgent); ok {
		tools, err := a.bindAgentTools(n, l.opts.Tools)
		if err != nil {
			return err
		}
		n.transferTargets = transferTargets(n, l)
		if len(n.transferTargets) > 0 {
			tools = append(tools, tool.NewTransfer(targetNames(n.transferTargets)))
		}
		n.transferText = sync.OnceValue(func() string { return transferInstruction(n) })
		if tools, err = n.applyOutputSchema(l, tools); err != nil {
			return err
		}
		n.staticTools, n.toolsets = tools, l.opts.Toolsets
		n.tools, n.delimiters = l.buildToolbox(tools), l.opts.Code.internDelimiters()
		n.fixedRequest = sync.OnceValue(func() *fixedRequest { return a.buildFixedRequest(n, l) })
	}
	if t, ok := n.agent.(*ToolNode); ok {
		tools, err := a.bindAgentTools(n, []tool.Tool{t.tool})
		if err != nil {
			return err
		}
		n.tools = newToolbox(tools)
		if n.tools.byName[t.tool.Declaration().Name] == nil {
			return fmt.Errorf("node %s cannot call %s: only models use it", t.AgentName, t.tool.Declaration().Name)
		}
	}
	for _, c := range n.children {
		if err := a.prepareTools(c); err != nil {
			return err
		}
	}
	return nil
}

// bindAgentTools makes agents that are called as tools ready to run here.
func (a *App) bindAgentTools(n *node, tools []tool.Tool) ([]tool.Tool, error) {
	placed := slices.Clone(tools)
	for i, t := range placed {
		if at, ok := t.(*AgentTool); ok {
			p, err := at.bindToApp(a, n.llm)
			if err != nil {
				return nil, err
			}
			placed[i] = p
		}
	}
	return placed, nil
}

// findNode returns the first agent of this name, from the root down, depth first.
func (a *App) findNode(name string) *node { return a.rootNode.findNode(name) }

func (n *node) findNode(name string) *node {
	if n.agent.Name() == name {
		return n
	}
	for _, c := range n.children {
		if hit := c.findNode(name); hit != nil {
			return hit
		}
	}
	return nil
}

// Agent returns the first agent of this name from the root down, or nil.
func (a *App) Agent(name string) Agent {
	if n := a.findNode(name); n != nil {
		return n.agent
	}
	return nil
}

// Close lets go of a snapshot that no host has taken. One that a host has
// taken closes by itself.
func (a *App) Close() { a.refs.release() }

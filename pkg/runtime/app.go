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

// An App is an immutable snapshot of one deployed app. A run holds the
// snapshot that it started with. A snapshot that was replaced in the host
// closes after its last run.
type App struct {
	Name string
	// Description describes the app.
	Description string
	// Revision is the content hash of all sources of the app; empty for apps
	// built by Go code.
	Revision string
	// Root is the root of the agent tree.
	Root Agent
	// Config is the run config of invocations; a request can override it.
	Config RunConfig
	// ContextCache configures context caching of models; nil disables it.
	ContextCache *ContextCacheConfig
	// Resumable is set by AppOptions.
	Resumable bool
	// Retention is how long a session is kept after its last event; 0 means
	// forever. The program that serves the app deletes expired sessions.
	Retention time.Duration
	// Reload configures how changes of the app's files are published.
	Reload ReloadConfig

	nodes    map[Agent]*node
	rootNode *node
	plugins  []*Plugin
	state    *tool.StateSchema
	refs     refCount

	compactor *compactor // nil if compaction is disabled
}

// AppOptions are the settings of an app besides its agent tree.
type AppOptions struct {
	// Description is empty to use that of the root agent.
	Description string
	Revision    string
	// Config is nil for [DefaultRunConfig].
	Config *RunConfig
	// ContextCache is nil for no caching.
	ContextCache *ContextCacheConfig
	// Retention is how long a session is kept after its last event; 0 means
	// forever.
	Retention time.Duration
	// Model is used by LLM agents that neither have a model nor inherit one.
	Model model.LLM
	// Compaction replaces the older part of a conversation by summaries; nil
	// disables it.
	Compaction *CompactionConfig
	// Summarizer writes the summaries; nil uses the model of the root agent.
	Summarizer model.LLM
	// StateSchema types the keys of the state; nil accepts all values.
	StateSchema *tool.StateSchema
	// Reload is nil for [DefaultReloadConfig].
	Reload *ReloadConfig
	// Resumable allows invocations to be resumed after an interruption, or to
	// pause until a call is answered. Events then carry checkpoints.
	Resumable bool
	// Close releases the resources of the app. It is called once, after the
	// last run.
	Close func()
	// Plugins apply to every run, in this order; their names are unique.
	Plugins []*Plugin
	// Logger receives errors of closing plugins; nil disables logging.
	Logger *slog.Logger
}

// NewApp returns a snapshot of an agent tree. It fails when an agent appears
// more than once, or an LLM agent has no model.
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

// node is the place of an agent in the tree, with the data that depends on it.
type node struct {
	agent    Agent
	parent   *node
	children []*node
	// branch is the branch on which the agent runs in a parallel agent,
	// relative to the parent's branch.
	branch string

	when         *Condition
	llm          model.LLM
	transferable bool
	// tools are the static tools, which toolsets extend.
	tools           *toolbox
	staticTools     []tool.Tool
	toolsets        []tool.Set
	delimiters      unique.Handle[shownDelimiters]
	transferTargets []*node
	// transferText is the part of the system instruction that lists the
	// transfer targets. It is built on first use, because it is long for
	// agents with many peers.
	transferText func() string
	// fixedRequest is built on first use, too.
	fixedRequest   func() *fixedRequest
	responseSchema map[string]any
	// hooks is nil if no callback applies.
	hooks *hooks
}

func (a *App) addToTree(agent Agent, parent *node, inherited model.LLM) (*node, error) {
	if a.nodes[agent] != nil {
		return nil, fmt.Errorf("agent %s appears more than once in the agent tree", agent.Name())
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
			return nil, fmt.Errorf("agent %s has no model and inherits none", agent.Name())
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

// prepareTools sets the tools and transfer targets of each LLM agent, once the
// whole tree is built.
func (a *App) prepareTools(n *node) error {
	if l, ok := n.agent.(*LLMAgent); ok {
		tools, err := a.bindAgentTools(n, l.opts.Tools)
		if err != nil {
			return err
		}
		n.transferTargets = listTransferTargets(n, l)
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
			return fmt.Errorf("node %s cannot call %s: only models can use this tool", t.AgentName, t.tool.Declaration().Name)
		}
	}
	for _, c := range n.children {
		if err := a.prepareTools(c); err != nil {
			return err
		}
	}
	return nil
}

// bindAgentTools binds agents that are called as tools to the app.
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

// findNode returns the first agent of this name, depth first from the root.
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

// Agent returns the first agent of this name, depth first from the root, or
// nil.
func (a *App) Agent(name string) Agent {
	if n := a.findNode(name); n != nil {
		return n.agent
	}
	return nil
}

// Close releases a snapshot that was never published in a host. A published
// snapshot closes by itself.
func (a *App) Close() { a.refs.release() }

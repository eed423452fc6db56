package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/tool"
)

// NewApp returns a snapshot of an agent tree. It fails when an agent appears
// more than once, or an LLM agent has no model.
func NewApp(name string, root Agent, opts *AppOptions) (*App, error) {
	if opts == nil {
		opts = &AppOptions{}
	}
	a := &App{
		name: name, description: root.Description(), revision: opts.Revision, root: root,
		config: DefaultRunConfig(), nodes: map[Agent]*node{}, state: opts.StateSchema, refs: refCount{onLastRelease: opts.Close},
		contextCache: opts.ContextCache, retention: opts.Retention, outcomeRetention: opts.OutcomeRetention, resumable: opts.Resumable, live: opts.Live, sections: opts.Sections,
		contextSizes: opts.ContextSizes,
	}
	if err := a.registerPlugins(opts); err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	if opts.Description != "" {
		a.description = opts.Description
	}
	if opts.Config != nil {
		if err := opts.Config.validateConfig(); err != nil {
			return nil, fmt.Errorf("app %s: %w", name, err)
		}
		a.config = *opts.Config
	}
	a.reload = opts.Reload.withDefaults()
	a.refs.count.Store(1)
	top, err := a.addToTree(root, nil, opts.Model)
	if err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	a.rootNode = top
	if a.compactor, err = newCompactor(opts, top); err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	if err = a.prepareTools(top); err == nil {
		err = a.addEntries(opts.Entries)
	}
	if err != nil {
		return nil, fmt.Errorf("app %s: %w", name, err)
	}
	return a, nil
}

func (a *App) addToTree(agent Agent, parent *node, inherited model.LLM) (*node, error) {
	if a.nodes[agent] != nil {
		return nil, fmt.Errorf("agent %s appears more than once in the agent tree", agent.Name())
	}
	if err := errors.Join(checkJoin(agent, parent), checkWorker(agent, parent)); err != nil {
		return nil, err
	}
	n := &node{agent: agent, rootPath: agent.Name() + "@1", parent: parent, llm: inherited}
	if parent != nil {
		n.branch = parent.agent.Name() + "." + agent.Name()
		_, n.inWorkflow = parent.agent.(*Workflow)
	}
	n.author = agent.Name()
	switch a := agent.(type) {
	case *LLMAgent, *SequentialAgent, *ParallelAgent, *LoopAgent, *RouterAgent, *Workflow, *JoinNode:
		n.builtin = a.(builtinAgent)
	}
	switch agent.(type) {
	case *FunctionNode, *ToolNode, *JoinNode: // as in adk-python workflow/_node_runner.py
		if n.inWorkflow {
			n.author = parent.agent.Name()
		}
	}
	a.nodes[agent] = n
	if err := n.checkMode(); err != nil {
		return nil, err
	}
	a.hasTasks = a.hasTasks || n.isDelegate() && n.declaredMode() == ModeTask
	if n.isTaskNode() {
		if a.hasTaskNodes = true; !a.resumable {
			return nil, fmt.Errorf("node %s cannot have the mode task: the app is not resumable, and could not continue after a message of the user", agent.Name())
		}
	}
	for _, p := range a.plugins { // their callbacks come before the agent's own
		n.hooks = n.hooks.withCallbacks("plugin "+p.Name, &p.Callbacks)
	}
	if own, ok := agent.(baseAgent); ok {
		n.when = own.base().when
		n.hooks = n.hooks.withCallbacks("agent "+agent.Name(), &own.base().Callbacks)
	}
	if l, ok := agent.(*LLMAgent); ok {
		if l.opts.Model != nil {
			n.llm = l.opts.Model
		}
		if n.llm == nil {
			return nil, fmt.Errorf("agent %s has no model and inherits none", agent.Name())
		}
		n.transferable = !l.opts.DisallowTransferToParent && (parent == nil || parent.transferable) && !n.isDelegate()
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

// prepareTools sets each LLM agent's tools and transfer targets, once the whole tree is built.
func (a *App) prepareTools(n *node) error {
	if l, ok := n.agent.(*LLMAgent); ok {
		tools, err := a.bindAgentTools(n, l.opts.Tools)
		if err != nil {
			return err
		}
		delegates, err := newDelegateTools(n, tools)
		if err != nil {
			return err
		}
		tools = append(tools, delegates...)
		n.transferTargets = listTransferTargets(n, l)
		if len(n.transferTargets) > 0 {
			tools = append(tools, tool.NewTransfer(targetNames(n.transferTargets)))
		}
		n.transferText = sync.OnceValue(func() string { return transferInstruction(n) })
		if tools, err = n.addFinishTool(l, tools); err != nil {
			return err
		}
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

// Close releases a snapshot that was never published in a host. A published
// snapshot closes by itself.
func (a *App) Close() { a.refs.release() }

// pluginCloseTimeout is the time limit for closing each plugin (adk-python
// runners.py).
const pluginCloseTimeout = 5 * time.Second

// checkPlugins requires a unique name for each plugin.
func checkPlugins(plugins []*Plugin) error {
	seen := map[string]bool{}
	for _, p := range plugins {
		if p.Name == "" {
			return errors.New("plugin name is required")
		}
		if seen[p.Name] {
			return fmt.Errorf("duplicate plugin name %s", p.Name)
		}
		seen[p.Name] = true
	}
	return nil
}

// registerPlugins validates the app's plugins and closes them with the app.
func (a *App) registerPlugins(opts *AppOptions) error {
	if len(opts.Plugins) == 0 {
		return nil
	}
	a.plugins = slices.Clone(opts.Plugins)
	logger := opts.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	a.refs.onLastRelease = func() {
		a.closePlugins(logger)
		if opts.Close != nil {
			opts.Close()
		}
	}
	return checkPlugins(a.plugins)
}

// closePlugins closes all plugins one after the other.
func (a *App) closePlugins(logger *slog.Logger) {
	for _, p := range a.plugins {
		if p.Close == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), pluginCloseTimeout)
		if err := p.Close(ctx); err != nil {
			logger.Warn("closing plugin failed", "app", a.name, "plugin", p.Name, "error", err)
		}
		cancel()
	}
}

package runtime

import (
	"context"
	"unique"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// node is an agent's place in the tree, with the data that depends on it.
type node struct {
	agent    Agent
	parent   *node
	children []*node
	// builtin is the agent if it is one of this package; nil for one that embeds such an agent, whose
	// own Run is called.
	builtin builtinAgent
	// author is the author of its events.
	author string
	// inWorkflow reports that the parent is a workflow.
	inWorkflow bool
	// rootPath is the path of the agent where it is the first one of an invocation.
	rootPath string
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
	// transferText is the system instruction part that lists the transfer targets. It is built on
	// first use, because it is long for agents with many peers.
	transferText func() string
	// fixedRequest is built on first use, too.
	fixedRequest   func() *fixedRequest
	responseSchema map[string]any
	// hooks is nil if no callback applies.
	hooks *hooks
}

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

// toolbox has an LLM agent's prepared tools.
type toolbox struct {
	byName   map[string]tool.Tool
	names    []string
	declared []*genai.Tool
	editors  []namedEditor
}

// listTools returns the tools in order.
func (b *toolbox) listTools() []tool.Tool {
	all := make([]tool.Tool, len(b.names))
	for i, name := range b.names {
		all[i] = b.byName[name]
	}
	return all
}

type namedEditor struct {
	name string
	edit tool.RequestEditor
}

// fixedRequest is the part of an agent's requests that is the same in every
// run.
type fixedRequest struct {
	// system is the system instruction; nil if it has placeholders.
	system *genai.Content
	// config is the config that requests share; nil if runs, callbacks or
	// tools may change it.
	config *genai.GenerateContentConfig
}

// shownDelimiters are the delimiters around code and results in requests to a model.
type shownDelimiters struct{ code, result CodeDelimiters }

// hooks are the callbacks that apply to one agent, each with its owner. It is
// nil for an agent without callbacks.
type hooks struct {
	beforeAgent  []ownedCallback[AgentFunc]
	afterAgent   []ownedCallback[AgentFunc]
	beforeModel  []ownedCallback[BeforeModelFunc]
	afterModel   []ownedCallback[AfterModelFunc]
	onModelError []ownedCallback[ModelErrorFunc]
	beforeTool   []ownedCallback[BeforeToolFunc]
	afterTool    []ownedCallback[AfterToolFunc]
	onToolError  []ownedCallback[ToolErrorFunc]
}

// ownedCallback is a callback with its owner's name.
type ownedCallback[F any] struct {
	owner string
	fn    F
}

// declaredMode returns the mode that an LLM agent declares; empty for other agents.
func (n *node) declaredMode() Mode {
	if l, ok := n.agent.(*LLMAgent); ok {
		return l.opts.Mode
	}
	return ""
}

// isDelegate reports whether the parent calls the agent as a tool.
func (n *node) isDelegate() bool {
	if mode := n.declaredMode(); n.parent == nil || mode != ModeSingleTurn && mode != ModeTask {
		return false
	}
	_, byModel := n.parent.agent.(*LLMAgent)
	return byModel
}

// isTaskNode reports whether the agent is a task and a workflow node.
func (n *node) isTaskNode() bool { return n.declaredMode() == ModeTask && n.inWorkflow }

// isSingleTurn reports whether an agent sees its input instead of the conversation: in
// ModeSingleTurn, and as a workflow node without a mode (adk-python
// workflow/_llm_agent_wrapper.py). IncludeDefault keeps such a node's conversation.
func (n *node) isSingleTurn() bool {
	a, isLLM := n.agent.(*LLMAgent)
	switch {
	case !isLLM || n.parent == nil || a.opts.Mode == ModeChat || a.opts.Mode == ModeTask:
		return false
	case a.opts.Mode == ModeSingleTurn:
		return true
	case a.opts.IncludeContents == IncludeDefault:
		return false
	}
	return n.inWorkflow
}

// A builtinAgent is an agent in this package. It passes its events directly to its parent's yield
// function: an iterator at every tree level would allocate several closures for each agent.
type builtinAgent interface {
	// run passes the agent's events to yield. It returns false after it
	// yielded an error or yield returned false.
	run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool
}

// streamEvents returns an agent's events as an iterator.
func streamEvents(ctx context.Context, a builtinAgent, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) { a.run(ctx, inv, yield) }
}

// invocationTool is a runtime tool that requires the invocation.
type invocationTool interface {
	runInInvocation(ctx context.Context, inv *Invocation, call *tool.Call) (*tool.Result, error)
}

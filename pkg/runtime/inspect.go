package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
)

// An AgentInfo describes an agent for people who inspect an app. Fields that
// do not apply are empty.
type AgentInfo struct {
	// Kind is the agent class in documents; empty for agents from other Go packages.
	Kind              string
	Name, Description string
	// Model is the agent's own or inherited model.
	Model string
	// Instruction is the source text with placeholders.
	Instruction     string
	OutputKey       string
	IncludeContents IncludeContents
	// MaxIterations is nil for no limit, and for agents that are not loops.
	MaxIterations *int
	// Tools are the agent's own, without those that the runtime adds.
	Tools []ToolInfo
	// Agents are the sub-agents, in order.
	Agents []*AgentInfo
	// Edges are a workflow's edges, between its Agents.
	Edges []Edge
}

// A ToolInfo describes a tool.
type ToolInfo struct {
	Declaration *genai.FunctionDeclaration
	// Agent is the agent that the tool calls, or nil.
	Agent *AgentInfo
	// Builtin tools run in the model's service and are never called by name.
	Builtin bool
}

// AgentInfo describes the agent tree.
func (a *App) AgentInfo() *AgentInfo { return a.rootNode.describeAgent() }

// Find returns the first agent with a name, depth first, or nil. Agents that are called as tools
// are not searched.
func (p *AgentInfo) Find(name string) *AgentInfo {
	if p.Name == name {
		return p
	}
	for _, child := range p.Agents {
		if hit := child.Find(name); hit != nil {
			return hit
		}
	}
	return nil
}

func (n *node) describeAgent() *AgentInfo {
	p := &AgentInfo{Name: n.agent.Name(), Description: n.agent.Description()}
	for _, c := range n.children {
		p.Agents = append(p.Agents, c.describeAgent())
	}
	switch a := n.agent.(type) {
	case *LLMAgent:
		p.Kind, p.Model = "LlmAgent", n.llm.Name()
		p.OutputKey, p.IncludeContents = a.opts.OutputKey, cmp.Or(a.opts.IncludeContents, IncludeDefault)
		if a.opts.Instruction != nil {
			p.Instruction = a.opts.Instruction.written // with its placeholders
		}
		p.Tools = describeTools(a.opts.Tools, n)
	case *SequentialAgent:
		p.Kind = "SequentialAgent"
	case *ParallelAgent:
		p.Kind = "ParallelAgent"
	case *LoopAgent:
		p.Kind, p.MaxIterations = "LoopAgent", a.opts.MaxIterations
	case *RouterAgent:
		p.Kind = "RouterAgent"
	case *Workflow:
		p.Kind = "Workflow"
		for _, from := range a.edges {
			p.Edges = append(p.Edges, from...)
		}
	case *FunctionNode:
		p.Kind, p.OutputKey = "FunctionNode", a.opts.OutputKey
	case *ToolNode:
		p.Kind, p.OutputKey = "ToolNode", a.opts.OutputKey
		p.Tools = describeTools([]tool.Tool{a.tool}, n)
	case *JoinNode:
		p.Kind = "JoinNode"
	}
	return p
}

func describeTools(tools []tool.Tool, n *node) []ToolInfo {
	var all []ToolInfo
	for _, t := range tools {
		p := ToolInfo{Declaration: t.Declaration(), Builtin: tool.CapabilitiesOf(t).RequestOnly}
		if placed, ok := n.tools.byName[p.Declaration.Name].(*boundAgentTool); ok {
			p.Agent = placed.app.AgentInfo()
		}
		all = append(all, p)
	}
	return all
}

// A PreviewRequest requests a [Preview].
type PreviewRequest struct {
	App string
	// Agent is the agent to preview. If it is empty, the agent that would
	// answer is used, or the first LLM agent below it.
	Agent string
	// UserID and SessionID identify a stored session. Without SessionID the
	// preview uses a new session; UserID then defaults to "user".
	UserID, SessionID string
	// State overlays the session's state.
	State map[string]any
	// Text is the user message; if it is empty, none is added.
	Text string
}

// A Preview is the exact request that would be sent to an agent's model.
type Preview struct {
	App               string                       `json:"app"`
	Agent             string                       `json:"agent"`
	Model             string                       `json:"model"`
	SystemInstruction string                       `json:"systemInstruction"`
	Contents          []json.RawMessage            `json:"contents"`
	Tools             []*genai.Tool                `json:"tools"`
	Config            *genai.GenerateContentConfig `json:"config"`
}

// Preview builds the request that would be sent to an agent's model. It calls no
// model and no tool, but does call the callbacks before the model, which may
// change the request. It stores nothing: the callbacks' state writes and artifacts are discarded.
func (h *Host) Preview(ctx context.Context, req *PreviewRequest) (*Preview, error) {
	app, err := h.acquireApp(req.App)
	if err != nil {
		return nil, err
	}
	defer app.refs.release()
	sess, err := h.previewSession(ctx, app, req)
	if err != nil {
		return nil, err
	}
	r := h.previewRun(app, sess, req)
	chosen := r.chooseAgent()
	if req.Agent != "" {
		if chosen = app.findNode(req.Agent); chosen == nil {
			return nil, failf(CodeInvalidRequest, session.ErrNotFound, "agent not found in app %s: %s; its agents are %s", app.name, req.Agent, strings.Join(app.AgentNames(), ", "))
		}
	}
	n := chosen.findFirstLLM()
	if n == nil {
		return nil, failf(CodeInvalidRequest, nil, "agent %s does not use a model", chosen.agent.Name())
	}
	inv := &Invocation{run: r, node: n}
	built, err := inv.buildRequest(ctx, n.agent.(*LLMAgent))
	if err == nil && n.hooks != nil {
		m := inv.newCallbackContext(&session.Actions{})
		m.Artifacts = unsavedArtifacts{m.Artifacts}
		var answer *model.Response
		if answer, err = inv.runBeforeModel(ctx, m, built); err == nil && answer != nil {
			err = failf(CodeInvalidRequest, nil, "the model of agent %s would not be called: a callback answers %q", n.agent.Name(), model.TextOf(answer.Content))
		}
	}
	if err != nil {
		return nil, err
	}
	return newPreview(app.name, n, built)
}

// unsavedArtifacts are a session's artifacts, to which nothing is added.
type unsavedArtifacts struct{ tool.Artifacts }

// Save returns the version 0 and stores nothing.
func (unsavedArtifacts) Save(context.Context, string, *genai.Part) (int, error) { return 0, nil }

// previewSession returns a copy of the session that is never stored.
func (h *Host) previewSession(ctx context.Context, app *App, req *PreviewRequest) (*session.Session, error) {
	key := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
	sess := &session.Session{Key: key, History: session.NewHistory(nil), State: session.NewState(nil)}
	if req.SessionID == "" {
		sess.User = cmp.Or(req.UserID, "user")
		if err := store.ValidateOwner(key.App, sess.User); err != nil {
			return nil, failf(CodeInvalidRequest, err, "%s", err)
		}
	} else {
		stored, err := h.store.Sessions.Get(ctx, key, app.config.SessionWindow.storeOptions())
		if err != nil {
			return nil, storeFailure(key, err)
		}
		sess.History = session.NewHistory(slices.Clone(stored.Events()))
		sess.State = stored.State
	}
	sess.State.Apply(req.State)
	return sess, nil
}

func (h *Host) previewRun(app *App, sess *session.Session, req *PreviewRequest) *run {
	r := &run{turn: turn{id: "e-preview", host: h, key: sess.Key, app: app, sess: sess, config: app.config}, message: userMessage{content: &genai.Content{}}}
	r.limits.budget = &callBudget{}
	r.limits.budget.setLimits(&app.config)
	if req.Text != "" {
		r.message.content, r.message.text = model.UserText(req.Text), req.Text
		ev := &session.Event{InvocationID: r.id, Author: session.UserAuthor, Timestamp: h.now()}
		ev.Content = r.message.content
		sess.History.Append(ev)
	}
	r.message.number = countTurns(sess.History)
	return r
}

func (n *node) findFirstLLM() *node {
	if _, ok := n.agent.(*LLMAgent); ok {
		return n
	}
	for _, c := range n.children {
		if llm := c.findFirstLLM(); llm != nil {
			return llm
		}
	}
	return nil
}

// AgentNames returns the agent names in the tree, from the root down.
func (a *App) AgentNames() []string {
	var names []string
	var walk func(n *node)
	walk = func(n *node) {
		names = append(names, n.agent.Name())
		for _, c := range n.children {
			walk(c)
		}
	}
	walk(a.rootNode)
	return names
}

func newPreview(app string, n *node, req *model.Request) (*Preview, error) {
	p := &Preview{
		App: app, Agent: n.agent.Name(), Model: req.Model,
		SystemInstruction: req.Instruction(), Contents: []json.RawMessage{}, Tools: req.Config.Tools,
	}
	for _, c := range req.Contents {
		b, err := session.EncodeContent(c)
		if err != nil {
			return nil, err
		}
		p.Contents = append(p.Contents, b)
	}
	if p.Tools == nil {
		p.Tools = []*genai.Tool{}
	}
	config := *req.Config
	config.SystemInstruction, config.Tools = nil, nil
	// Headers may contain credentials, and are not part of the prompt.
	config.HTTPOptions = nil
	p.Config = &config
	return p, nil
}

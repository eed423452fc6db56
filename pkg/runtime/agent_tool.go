package runtime

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// An AgentTool lets a model call an agent. The agent runs in its own temporary
// session, which starts with a copy of the caller's state. Its state writes
// are returned with the result, and its model calls count against the caller's
// limit.
type AgentTool struct {
	agent         Agent
	opts          AgentToolOptions
	input, output *tool.Schema
	decl          *genai.FunctionDeclaration
	capabilities  tool.Capabilities
}

// AgentToolOptions are an agent tool's optional settings.
type AgentToolOptions struct {
	// SkipSummarization makes the result the calling agent's answer and ends its turn.
	SkipSummarization bool
	// WithoutPlugins excludes the agent's runs from the app's plugins.
	WithoutPlugins bool
}

// NewAgentTool returns a tool that calls an agent; opts may be nil.
func NewAgentTool(agent Agent, opts *AgentToolOptions) *AgentTool {
	if opts == nil {
		opts = &AgentToolOptions{}
	}
	t := &AgentTool{agent: agent, opts: *opts, input: inputSchemaOf(agent), output: outputSchemaOf(agent)}
	params := map[string]any{
		"type":       "object",
		"properties": map[string]any{"request": map[string]any{"type": "string"}},
		"required":   []string{"request"},
	}
	if t.input != nil {
		params = t.input.JSON()
	}
	t.decl = &genai.FunctionDeclaration{Name: agent.Name(), Description: agent.Description(), ParametersJsonSchema: params}
	return t
}

// IsAgentTool reports whether a tool runs an agent.
func IsAgentTool(t tool.Tool) bool {
	switch t.(type) {
	case *AgentTool, *boundAgentTool, *delegateTool:
		return true
	}
	return false
}

// Declaration has the agent's name and description, and the parameters in its input schema. Without
// an input schema it has one parameter, request.
func (t *AgentTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run fails: an agent requires an invocation, which only the runtime provides.
func (t *AgentTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("agent %s can only be called by an agent of an app", t.agent.Name())
}

// A boundAgentTool is an AgentTool at its place in an app, where the model
// that the agent inherits is known.
type boundAgentTool struct {
	*AgentTool
	app    *App
	params *tool.Params
}

func (t *AgentTool) bindToApp(app *App, inherited model.LLM) (*boundAgentTool, error) {
	opts := &AppOptions{Revision: app.revision, Model: inherited, StateSchema: app.state, Plugins: app.plugins}
	if t.opts.WithoutPlugins {
		opts.Plugins = nil
	}
	inner, err := NewApp(app.name, t.agent, opts)
	if err != nil {
		return nil, err
	}
	params, err := t.readParams()
	if err != nil {
		return nil, err
	}
	return &boundAgentTool{t, inner, params}, nil
}

// readParams returns the call parameters: the input schema's, or the request.
func (t *AgentTool) readParams() (*tool.Params, error) {
	if t.input != nil {
		return t.input.Params(t.decl.Name).AsSignature(), nil
	}
	params, err := tool.TextParams(t.decl)
	if err != nil {
		return nil, err
	}
	return params.AsSignature(), nil
}

func (t *boundAgentTool) runInInvocation(ctx context.Context, inv *Invocation, call *tool.Call) (*tool.Result, error) {
	request, err := t.buildRequest(ctx, call.Args)
	if err != nil {
		return nil, err
	}
	room := t.newInnerRun(inv, call, request)
	if room.message, err = room.storeUserMessage(ctx, &RunRequest{}); err != nil {
		return nil, err
	}
	var last *session.Event
	var failure error
	room.output.ctx = ctx
	room.output.guard.yield = func(ev *session.Event, err error) bool {
		if err != nil {
			failure = err
			return false
		}
		for k, v := range ev.Actions.StateDelta {
			call.State.Set(k, v)
		}
		if failure = call.State.Update(session.UpdatesWithoutTemp(ev.Actions.StateUpdates)...); failure != nil {
			return false
		}
		for name, version := range ev.Actions.ArtifactDelta {
			call.Actions.SetArtifact(name, version)
		}
		if ev.Content != nil || ev.IsPlainResult() {
			last = ev
		}
		return true
	}
	room.runWithPlugins(ctx)
	if failure != nil {
		return nil, failure
	}
	call.Actions.SkipSummarization = t.opts.SkipSummarization
	if last != nil && (isTaskFinish(last) || last.IsPlainResult()) {
		return &tool.Result{Response: asResponse(last.Output)}, nil
	}
	return t.buildResult(ctx, collectEventText(last))
}

// buildRequest returns the message for the agent: with an input schema the
// arguments as JSON, else the request argument.
func (t *boundAgentTool) buildRequest(ctx context.Context, args map[string]any) (string, error) {
	args, err := t.params.Check(ctx, args)
	if err != nil {
		return "", err
	}
	if t.input == nil {
		request, _ := args["request"].(string)
		return request, nil
	}
	return jsonText(args), nil
}

// buildResult returns the call result: with an output schema the decoded value, else the text.
func (t *boundAgentTool) buildResult(ctx context.Context, text string) (*tool.Result, error) {
	if t.capabilities.LongRunning && text == "" {
		return nil, nil
	}
	if t.output == nil || strings.TrimSpace(text) == "" {
		return &tool.Result{Response: map[string]any{"result": text}}, nil
	}
	v, err := t.output.Parse(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("the answer of agent %s does not match its output_schema: %w", t.agent.Name(), err)
	}
	return &tool.Result{Response: asResponse(v)}, nil
}

// newInnerRun returns a run in a temporary session. It shares the caller's
// budget, so that it cannot evade the limit on model calls.
func (t *boundAgentTool) newInnerRun(inv *Invocation, call *tool.Call, request string) *runRoom {
	state := call.State.All()
	for k := range state {
		if strings.HasPrefix(k, "_adk") {
			delete(state, k)
		}
	}
	outer := inv.run
	room := &runRoom{run: run{
		turn: turn{
			inner: true, key: outer.key,
			id: outer.host.newRunID(), host: outer.host, app: t.app, onModelWait: outer.onModelWait, traced: outer.traced,
			sess: &session.Session{Key: outer.sess.Key, History: session.NewHistory(nil), State: session.NewState(state)},
			config: RunConfig{
				MaxLLMCalls: outer.config.MaxLLMCalls, ToolThreadPoolConfig: outer.config.ToolThreadPoolConfig,
				MaxFunctionCalls: outer.config.MaxFunctionCalls, CustomMetadata: outer.config.CustomMetadata,
				Labels: outer.config.Labels, ServiceTier: outer.config.ServiceTier,
			},
		},
		message: userMessage{content: model.UserText(request)},
		limits:  turnLimits{budget: outer.limits.budget, counter: outer.limits.counter, expressions: call.Expressions},
	}}
	r := &room.run
	room.root.run, room.root.node, room.root.path = r, t.app.rootNode, rootPathOf(t.app.rootNode)
	if call.Media != nil {
		r.message.content.Parts = append(r.message.content.Parts, &genai.Part{InlineData: call.Media})
	}
	return room
}

// collectEventText returns an event's texts, without thoughts, one per line.
func collectEventText(ev *session.Event) string {
	if ev == nil {
		return ""
	}
	var texts []string
	for _, p := range ev.Content.Parts {
		switch {
		case p.Thought:
		case p.Text != "":
			texts = append(texts, p.Text)
		case p.CodeExecutionResult != nil && p.CodeExecutionResult.Output != "":
			texts = append(texts, p.CodeExecutionResult.Output)
		case p.ExecutableCode != nil && p.ExecutableCode.Code != "":
			texts = append(texts, p.ExecutableCode.Code)
		}
	}
	return strings.Join(texts, "\n")
}

// WithCapabilities returns the tool with settings for its calls. A long-running tool's result is an
// interim response, if there is any; the client supplies the final one later.
func (t *AgentTool) WithCapabilities(c tool.Capabilities) *AgentTool {
	with := *t
	with.capabilities = c
	if c.LongRunning {
		decl := *t.decl
		decl.Description = tool.WithPendingNote(decl.Description)
		with.decl = &decl
	}
	return &with
}

// Capabilities returns the settings for its calls.
func (t *AgentTool) Capabilities() tool.Capabilities { return t.capabilities }

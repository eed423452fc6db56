package runtime

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// agentToolConfig is the YAML of an agent that is called as a tool: the args
// of ADK's AgentTool (adk-python tools/agent_tool.py).
type agentToolConfig struct {
	Agent             AgentRef `yaml:"agent" required:"true" doc:"The agent: {config_path: file}, {use: name}, or written out."`
	SkipSummarization bool     `yaml:"skip_summarization" doc:"The agent's answer ends the turn: the calling model does not phrase it again."`

	Call agentCallConfig `yaml:",inline"`
}

// agentCallConfig is how calls of an agent are made.
type agentCallConfig struct {
	IncludePlugins bool `yaml:"include_plugins" default:"true" doc:"Whether the app's plugins take part in the agent's runs too."`

	LongRunning bool            `yaml:"long_running" doc:"The answer comes later, from the client; what the agent says is told at once, and nothing when it says nothing."`
	Call        tool.CallConfig `yaml:",inline"`
}

func (c *agentToolConfig) AgentRefs() []*AgentRef { return []*AgentRef{&c.Agent} }

// agentKindConfig is the short form of the same: the agent itself.
type agentKindConfig struct {
	Use               spec.Text `yaml:"use" doc:"A named agent of the document."`
	ConfigPath        spec.Text `yaml:"config_path" doc:"A file with the agent."`
	Agent             *AgentRef `yaml:"agent" doc:"The agent, written out."`
	SkipSummarization bool      `yaml:"skip_summarization" doc:"The agent's answer ends the turn: the calling model does not phrase it again."`

	Call agentCallConfig `yaml:",inline"`

	ref *AgentRef
}

func (c *agentKindConfig) AgentRefs() []*AgentRef {
	if c.ref == nil {
		c.ref = c.Agent
		if c.ref == nil {
			c.ref = &AgentRef{Use: c.Use, ConfigPath: c.ConfigPath}
		}
	}
	return []*AgentRef{c.ref}
}

// Check wants exactly one way to name the agent, and a condition in confirm.
func (c *agentKindConfig) Check(n *spec.Node) spec.Diagnostics {
	given := 0
	for _, key := range []string{"use", "config_path", "agent"} {
		if n.Get(key) != nil {
			given++
		}
	}
	ds := checkConfirm(c.Call.Call.Confirm)
	if given != 1 {
		ds = append(ds, n.Errorf("tool", "an agent as a tool needs one of use, config_path and agent"))
	}
	return ds
}

func newAgentTool(_ context.Context, env AgentToolEnv, c *agentToolConfig) (tool.Set, error) {
	return NewAgentTool(env.Agent, c.SkipSummarization).withCallConfig(&c.Call)
}

func newAgentKind(_ context.Context, env AgentToolEnv, c *agentKindConfig) (tool.Set, error) {
	return NewAgentTool(env.Agent, c.SkipSummarization).withCallConfig(&c.Call)
}

// An AgentTool lets a model call an agent. The agent runs in a session of its
// own that begins with the caller's state; what it writes to the state comes
// back with the answer, and its model calls count against the caller's limit.
type AgentTool struct {
	agent             Agent
	skipSummarization bool
	input, output     *tool.Schema
	decl              *genai.FunctionDeclaration
	capabilities      tool.Capabilities
	withoutPlugins    bool
}

// NewAgentTool makes a tool of an agent. With skipSummarization the answer
// ends the calling agent's turn.
func NewAgentTool(agent Agent, skipSummarization bool) *AgentTool {
	t := &AgentTool{agent: agent, skipSummarization: skipSummarization, input: inputSchemaOf(agent), output: outputSchemaOf(agent)}
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

// Declaration has the agent's name and description, and the parameters that its
// input schema names, or else one: the request in words.
func (t *AgentTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run fails: an agent needs an invocation, which only the runtime has.
func (t *AgentTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("agent %s can be called by an agent of an app only", t.agent.Name())
}

// boundAgentTool is an AgentTool at its place in an app, where it is known
// which model the agent inherits.
type boundAgentTool struct {
	*AgentTool
	app    *App
	params *tool.Params
}

func (t *AgentTool) bindToApp(app *App, inherited model.LLM) (*boundAgentTool, error) {
	opts := &AppOptions{Revision: app.Revision, Model: inherited, StateSchema: app.state, Plugins: app.plugins}
	if t.withoutPlugins {
		opts.Plugins = nil
	}
	inner, err := NewApp(app.Name, t.agent, opts)
	if err != nil {
		return nil, err
	}
	params, err := tool.NewParams(t.decl)
	if err != nil {
		return nil, err
	}
	return &boundAgentTool{t, inner, params}, nil
}

func (t *boundAgentTool) runInInvocation(ctx context.Context, inv *Invocation, call *tool.Call) (*tool.Result, error) {
	request, err := t.buildRequest(call.Args)
	if err != nil {
		return nil, err
	}
	r := t.newInnerRun(inv, call, request)
	if err := r.storeUserMessage(ctx, &RunRequest{}); err != nil {
		return nil, err
	}
	var last *session.Event
	var failure error
	root := &Invocation{run: r, node: t.app.rootNode}
	r.runWithPlugins(ctx, root, func(ev *session.Event, err error) bool {
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
		if ev.Content != nil {
			last = ev
		}
		return true
	})
	if failure != nil {
		return nil, failure
	}
	call.Actions.SkipSummarization = t.skipSummarization
	return t.buildResult(collectEventText(last))
}

// buildRequest is what the agent is told: with an input schema the arguments as
// JSON, else the request in words.
func (t *boundAgentTool) buildRequest(args map[string]any) (string, error) {
	args, err := t.params.Check(args)
	if err != nil {
		return "", err
	}
	if t.input == nil {
		request, _ := args["request"].(string)
		return request, nil
	}
	return jsonText(args), nil
}

// buildResult is what the caller is told: with an output schema the value, else the
// text.
func (t *boundAgentTool) buildResult(said string) (*tool.Result, error) {
	if t.capabilities.LongRunning && said == "" {
		return nil, nil
	}
	if t.output == nil || strings.TrimSpace(said) == "" {
		return &tool.Result{Response: map[string]any{"result": said}}, nil
	}
	v, err := t.output.Parse(said)
	if err != nil {
		return nil, fmt.Errorf("the answer of agent %s does not fit its output_schema: %w", t.agent.Name(), err)
	}
	return &tool.Result{Response: asResponse(v)}, nil
}

// newInnerRun is a run in a session that nothing stores. It shares the caller's
// budget: an inner run must not evade the limit on model calls.
func (t *boundAgentTool) newInnerRun(inv *Invocation, call *tool.Call, request string) *run {
	state := call.State.All()
	for k := range state {
		if strings.HasPrefix(k, "_adk") {
			delete(state, k)
		}
	}
	outer := inv.run
	r := &run{
		inner: true,
		id:    "e-" + outer.host.newID(), host: outer.host, app: t.app, budget: outer.budget, expressions: outer.expressions,
		sess: &session.Session{Key: outer.sess.Key, History: session.NewHistory(nil), State: session.NewState(state)},
		user: model.UserText(request),
	}
	r.state = r.lookupState
	r.config.MaxLLMCalls = outer.config.MaxLLMCalls
	r.config.ToolThreadPoolConfig = outer.config.ToolThreadPoolConfig
	r.config.MaxFunctionCalls = outer.config.MaxFunctionCalls
	r.commit = func(_ context.Context, ev *session.Event) error {
		// The caller's event takes the updates to the store.
		for _, key := range ev.Actions.UpdatedKeys() {
			old, _ := r.sess.State.Get(key)
			v, _, err := ev.Actions.Updated(key, old)
			if err != nil {
				return err
			}
			defer r.sess.State.Apply(map[string]any{key: v})
		}
		r.sess.State.Apply(ev.Actions.StateDelta)
		ev.Actions.StateDelta = session.WithoutTemp(ev.Actions.StateDelta)
		r.sess.History.Append(ev)
		return nil
	}
	return r
}

// collectEventText is the text of an event, its non-thought texts on lines of their own.
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

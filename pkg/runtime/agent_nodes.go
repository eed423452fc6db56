package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// nodeConfig is the YAML that nodes without agents share. The names are those
// of ADK's graph (adk-go internal/configurable/configurable_workflow.go).
type nodeConfig struct {
	AgentClass  spec.Text  `yaml:"agent_class" doc:"FunctionNode or ToolNode."`
	Name        spec.Text  `yaml:"name" required:"true" doc:"The node's name: letters, digits and underscores."`
	Description string     `yaml:"description" doc:"Description of the node."`
	When        *Condition `yaml:"when" doc:"Run the node only when this is true, and skip it otherwise."`
	OutputKey   string     `yaml:"output_key" doc:"State key that receives the output of the node."`

	RerunOnResume  *bool `yaml:"rerun_on_resume" doc:"Must be true: an interrupted node always runs again."`
	ParallelWorker bool  `yaml:"parallel_worker" doc:"Must be false: a node runs once for its whole input."`

	Callbacks agentCallbackLists `yaml:",inline"`
}

func (c *nodeConfig) validateNode(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.RerunOnResume != nil && !*c.RerunOnResume {
		ds = append(ds, n.Get("rerun_on_resume").Errorf("node", "rerun_on_resume must be true: an interrupted node always runs again"))
	}
	if c.ParallelWorker {
		ds = append(ds, n.Get("parallel_worker").Errorf("node", "parallel_worker must be false: a node runs once for its whole input").
			WithHint("process a list in an expression: map(input, # * 2)"))
	}
	return ds
}

// functionNodeConfig is the YAML of a FunctionNode.
type functionNodeConfig struct {
	Node     nodeConfig `yaml:",inline"`
	FuncCode funcCode   `yaml:"func_code" doc:"Name of a function registered by the program."`
	Expr     spec.Expr  `yaml:"expr" doc:"Expression that computes the output instead of a function; can use input, state, user, session, invocation and agent."`

	fn NodeFunc
}

// Check requires exactly one of func_code and expr.
func (c *functionNodeConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := c.Node.validateNode(n)
	switch function, expr := c.FuncCode.Value != "", c.Expr.Value != ""; {
	case function && expr:
		ds = append(ds, n.Get("expr").Errorf("node", "func_code and expr are mutually exclusive"))
	case !function && !expr:
		ds = append(ds, n.Errorf("node", "func_code or expr is required"))
	}
	return ds
}

// Bind resolves the function or compiles the expression.
func (c *functionNodeConfig) Bind(f *Functions) spec.Diagnostics {
	if c.Expr.Value != "" {
		x, ds := compileIn(c.Expr, inputEnv(), template.Compile)
		c.fn = func(ctx context.Context, m *CallbackContext, input any) (any, error) {
			return x.Eval(ctx, m.inputVars(input))
		}
		return ds
	}
	if c.fn = f.Nodes[c.FuncCode.Value]; c.fn == nil && c.FuncCode.Value != "" {
		return spec.Diagnostics{c.FuncCode.Errorf(0, "code", "unknown function %s: functions registered for a FunctionNode: %s",
			c.FuncCode.Value, joinNames(slices.Sorted(maps.Keys(f.Nodes)))).
			WithHint("write the node as an expression (expr), or register the function in Functions.Nodes")}
	}
	return nil
}

// funcCode is the name of a function, as a string or as {name: NAME}.
type funcCode struct{ spec.Text }

// DecodeSpec accepts both forms. A leading dot means the app's own package.
func (f *funcCode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	var named struct {
		Name spec.Text `yaml:"name" required:"true"`
	}
	if n.Kind == spec.Scalar {
		return f.Text.DecodeSpec(n)
	}
	ds := spec.Decode(n, &named)
	f.Text = named.Name
	return ds
}

// SchemaSpec describes both forms.
func (*funcCode) SchemaSpec() map[string]any { return nameOrMappingSchema() }

func newConfiguredFunctionNode(_ context.Context, _ AgentEnv, c *functionNodeConfig) (Agent, error) {
	return NewFunctionNode(c.Node.Name.Value, c.fn, &FunctionNodeOptions{Description: c.Node.Description, OutputKey: c.Node.OutputKey}), nil
}

// FunctionNodeOptions are the optional settings of a function node.
type FunctionNodeOptions struct {
	Description string
	// OutputKey is the state key that receives the output.
	OutputKey string
}

// A FunctionNode is a node of a [Workflow] that computes a value. It yields
// one event with the output, as a value for the next nodes and as text. It may
// be used anywhere in the agent tree; outside of a workflow its input is the
// user message.
type FunctionNode struct {
	Base
	fn        NodeFunc
	outputKey string
}

// NewFunctionNode returns a function node; opts may be nil.
func NewFunctionNode(name string, fn NodeFunc, opts *FunctionNodeOptions) *FunctionNode {
	if opts == nil {
		opts = &FunctionNodeOptions{}
	}
	return &FunctionNode{Base{AgentName: name, AgentDescription: opts.Description}, fn, opts.OutputKey}
}

// Run calls the function and yields its output. A resumed node that already
// has an output does not run again.
func (a *FunctionNode) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		if inv.frame != nil && inv.frame.prior.lastEvent() != nil {
			return
		}
		ev := inv.NewEvent()
		value, err := a.fn(ctx, inv.newCallbackContext(&ev.Actions), inv.Input())
		if err != nil {
			yield(nil, inv.wrapNodeError(ctx, err))
			return
		}
		setNodeOutput(ev, value, a.outputKey)
		yield(ev, nil)
	}
}

// setNodeOutput stores the output of a node in its event.
func setNodeOutput(ev *session.Event, value any, key string) {
	if content, ok := value.(*genai.Content); ok {
		ev.Content, ev.Output = content, model.TextOf(content)
	} else if value != nil {
		ev.Output = session.Normalize(value)
		ev.Content = model.ModelText(template.String(ev.Output))
	}
	if key != "" {
		ev.Actions.SetState(key, ev.Output)
	}
}

func (inv *Invocation) wrapNodeError(ctx context.Context, err error) error {
	var runErr *RunError
	switch {
	case errors.As(err, &runErr):
		return runErr
	case ctx.Err() != nil:
		return AsRunError(ctx.Err())
	}
	return failf(CodeAgentFailed, err, "node %s failed: %s", inv.node.agent.Name(), strings.TrimSpace(err.Error()))
}

func (inv *Invocation) inputVars(input any) map[string]any {
	vars := inv.conditionVars()
	vars["input"] = input
	return vars
}

// inputEnv declares the names available to the expressions of a node.
func inputEnv() template.Env {
	env := conditionEnv()
	env["input"] = nil
	return env
}

// toolNodeConfig is the YAML of a ToolNode.
type toolNodeConfig struct {
	Node     nodeConfig           `yaml:",inline"`
	ToolCode toolCode             `yaml:"tool_code" required:"true" doc:"The tool: a name, or a tool as in tools of an agent."`
	Args     map[string]spec.Expr `yaml:"args" doc:"The arguments, each an expression that can use input, state, user, session, invocation and agent. Default: the input."`

	Tools toolCallbackLists `yaml:",inline"`

	args map[string]*template.Expr
}

// ToolRefs returns the tool.
func (c *toolNodeConfig) ToolRefs() []*ToolRef { return []*ToolRef{&c.ToolCode.ToolRef} }

// Check validates the settings that all nodes share.
func (c *toolNodeConfig) Check(n *spec.Node) spec.Diagnostics { return c.Node.validateNode(n) }

// Bind compiles the arguments.
func (c *toolNodeConfig) Bind(*Functions) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.Args != nil {
		c.args = map[string]*template.Expr{}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Args)) {
		x, found := compileIn(c.Args[key], inputEnv(), template.Compile)
		ds = append(ds, found...)
		c.args[key] = x
	}
	return ds
}

// toolCode is a tool, by its name or as in a list of tools.
type toolCode struct{ ToolRef }

// DecodeSpec accepts both forms.
func (t *toolCode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Scalar {
		t.Node = wrapInMapping("name", n)
		return t.Name.DecodeSpec(n)
	}
	return t.ToolRef.DecodeSpec(n)
}

// SchemaSpec describes both forms.
func (*toolCode) SchemaSpec() map[string]any {
	return map[string]any{"title": "name, or [tool](#tools)", "anyOf": []any{
		map[string]any{"type": "string"}, map[string]any{"$ref": "#/$defs/tool"},
	}}
}

func newConfiguredToolNode(_ context.Context, env AgentEnv, c *toolNodeConfig) (Agent, error) {
	if len(env.Toolsets) > 0 {
		return nil, fmt.Errorf("node %s: a ToolNode requires a single static tool, but this toolset is dynamic", c.Node.Name.Value)
	}
	if len(env.Tools) != 1 {
		return nil, fmt.Errorf("node %s: a ToolNode requires exactly one tool, but %d have that name", c.Node.Name.Value, len(env.Tools))
	}
	opts := &ToolNodeOptions{Description: c.Node.Description, OutputKey: c.Node.OutputKey}
	if c.args != nil {
		opts.Args = c.evaluateArgs
	}
	return NewToolNode(c.Node.Name.Value, env.Tools[0], opts), nil
}

func (c *toolNodeConfig) evaluateArgs(ctx context.Context, m *CallbackContext, input any) (any, error) {
	args := map[string]any{}
	vars := m.inputVars(input)
	for key, x := range c.args {
		v, err := x.Eval(ctx, vars)
		if err != nil {
			return nil, fmt.Errorf("args: %s: %w", key, err)
		}
		args[key] = v
	}
	return args, nil
}

// ToolNodeOptions are the optional settings of a tool node.
type ToolNodeOptions struct {
	Description string
	// Args computes the arguments, a mapping; nil uses the input.
	Args NodeFunc
	// OutputKey is the state key that receives the result of the tool.
	OutputKey string
}

// A ToolNode is a node of a [Workflow] that calls a tool as a model would: the
// call and its result are events, and the call may require confirmation. Its
// output is the result; of a result {"result": …} it is the value.
type ToolNode struct {
	Base
	tool tool.Tool
	opts ToolNodeOptions
}

// NewToolNode returns a tool node; opts may be nil.
func NewToolNode(name string, t tool.Tool, opts *ToolNodeOptions) *ToolNode {
	if opts == nil {
		opts = &ToolNodeOptions{}
	}
	return &ToolNode{Base{AgentName: name, AgentDescription: opts.Description}, t, *opts}
}

// Run calls the tool. A resumed node continues where it was interrupted.
func (a *ToolNode) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		setOutput := func(ev *session.Event, err error) bool {
			a.setAnswerOutput(ev)
			return yield(ev, err)
		}
		s := &step{inv: inv, sink: setOutput}
		switch d := inv.run.decisions; {
		case inv.frame != nil:
			if s.resumeAgent(ctx) && !s.hasPendingCalls() {
				a.callTool(ctx, s)
			}
		case d != nil && d.author == a.AgentName && !d.consumed.Load():
			s.executeDecisions(ctx)
		case !inv.run.answersAgent(a.AgentName):
			a.callTool(ctx, s)
		}
		if !s.done {
			s.pauseIfPending()
		}
	}
}

// isGraphNode reports whether the node calls a tool or function without a
// model.
func (n *node) isGraphNode() bool {
	switch n.agent.(type) {
	case *ToolNode, *FunctionNode:
		return true
	}
	return false
}

// answersAgent reports whether the user's message answers a call of the agent.
func (r *run) answersAgent(agent string) bool {
	call := r.findAnsweredCall()
	return call != nil && call.Author == agent
}

// setAnswerOutput makes the tool result the output of the node, unless the
// call first requires human input.
func (a *ToolNode) setAnswerOutput(ev *session.Event) {
	if ev == nil || requestsHuman(&ev.Actions) || len(ev.Responses()) == 0 || isCallFailure(ev) {
		return
	}
	a.storeAnswer(ev, ev.Responses()[0])
}

func (a *ToolNode) storeAnswer(ev *session.Event, answer *genai.FunctionResponse) {
	ev.Output = answer.Response
	if v, sole := answer.Response["result"]; sole && len(answer.Response) == 1 {
		ev.Output = v
	}
	if a.opts.OutputKey != "" {
		ev.Actions.SetState(a.opts.OutputKey, ev.Output)
	}
}

// callTool makes the call. If the call was made before the invocation was
// resumed, it yields the user's answer instead.
func (a *ToolNode) callTool(ctx context.Context, s *step) {
	if f := s.inv.frame; f != nil {
		for _, made := range f.prior.allEvents() {
			for _, c := range made.Calls() {
				a.yieldUserAnswer(s, c)
				return
			}
		}
	}
	ev := s.inv.NewEvent()
	args, err := a.resolveArgs(ctx, s.inv.newCallbackContext(&ev.Actions), s.inv.Input())
	if err != nil {
		s.emitEvent(nil, s.inv.wrapNodeError(ctx, err))
		return
	}
	call := &genai.FunctionCall{ID: ownIDPrefix + s.inv.run.host.newID(), Name: a.tool.Declaration().Name, Args: args}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}
	ev.LongRunningToolIDs = s.longRunningIDs(ev.Calls())
	if s.emitEvent(ev, nil) {
		s.answerCalls(ctx, ev.Calls())
	}
}

// yieldUserAnswer yields the user's answer to a long-running call.
func (a *ToolNode) yieldUserAnswer(s *step, c *genai.FunctionCall) {
	run := s.inv.run
	for _, r := range slices.Backward(run.calls.findResponses(c.ID)) {
		if r.event.Author == session.UserAuthor && r.event.InvocationID == run.id {
			ev := s.inv.NewEvent()
			a.storeAnswer(ev, r.response)
			s.emitEvent(ev, nil)
			return
		}
	}
}

func (a *ToolNode) resolveArgs(ctx context.Context, m *CallbackContext, input any) (map[string]any, error) {
	if a.opts.Args != nil {
		v, err := a.opts.Args(ctx, m, input)
		if err != nil {
			return nil, err
		}
		input = v
	}
	switch v := session.Normalize(input).(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("the input must be a mapping to be used as arguments of %s; set args", a.tool.Declaration().Name)
	}
}

package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A NodeFunc computes the output of a [FunctionNode] from the output of the
// previous node. It returns a value that JSON can represent, or a
// [*genai.Content], which becomes the content of the event. The state and
// actions that it writes to the context are part of the event. Many runs call
// it concurrently.
type NodeFunc func(ctx context.Context, m *CallbackContext, input any) (any, error)

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

func nameOrMappingSchema() map[string]any {
	return map[string]any{"title": "name", "anyOf": []any{
		map[string]any{"type": "string"},
		map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"name"},
			"properties": map[string]any{"name": map[string]any{"type": "string"}},
		},
	}}
}

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

// Input is the output of the previous node of a [Workflow]. For a JoinNode it
// is a mapping from the names of the joined nodes to their outputs; for the
// first node, and for agents outside of a workflow, it is the text of the user
// message.
func (inv *Invocation) Input() any {
	if inv.input != nil {
		return inv.input.v
	}
	return inv.run.userText
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

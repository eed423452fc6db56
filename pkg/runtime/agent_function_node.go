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

// A NodeFunc is the work of a [FunctionNode]. It gets what the node before it
// gave, and returns what this one gives: a value that JSON has, or a
// [*genai.Content] that is said as it is. What it writes to the moment rides on
// the event. Many runs call it at once.
type NodeFunc func(ctx context.Context, m *CallbackContext, input any) (any, error)

// nodeConfig is the YAML that nodes without agents share. Their names are those
// of ADK's graph (adk-go internal/configurable/configurable_workflow.go).
type nodeConfig struct {
	AgentClass  spec.Text  `yaml:"agent_class" doc:"FunctionNode or ToolNode."`
	Name        spec.Text  `yaml:"name" required:"true" doc:"The node's name: letters, digits and underscores."`
	Description string     `yaml:"description" doc:"What the node does."`
	When        *Condition `yaml:"when" doc:"The node runs only when this is true, and is skipped else."`
	OutputKey   string     `yaml:"output_key" doc:"The state key that keeps what the node gives."`

	RerunOnResume  *bool `yaml:"rerun_on_resume" doc:"Must be true: a node that was cut off runs again."`
	ParallelWorker bool  `yaml:"parallel_worker" doc:"Must be false: see FunctionNode in the language."`

	Callbacks agentCallbackLists `yaml:",inline"`
}

func (c *nodeConfig) validateNode(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.RerunOnResume != nil && !*c.RerunOnResume {
		ds = append(ds, n.Get("rerun_on_resume").Errorf("node", "a node that was cut off runs again: there is no other way to have what it gives"))
	}
	if c.ParallelWorker {
		ds = append(ds, n.Get("parallel_worker").Errorf("node", "a node runs once for all of its input").
			WithHint("an expression goes over a list by itself: map(input, # * 2)"))
	}
	return ds
}

// functionNodeConfig is the YAML of a FunctionNode.
type functionNodeConfig struct {
	Node     nodeConfig `yaml:",inline"`
	FuncCode funcCode   `yaml:"func_code" doc:"A function that the program has under this name."`
	Expr     spec.Expr  `yaml:"expr" doc:"What the node gives, in place of a function; sees input, state, user, session, invocation and agent."`

	fn NodeFunc
}

// Check wants one of the two.
func (c *functionNodeConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := c.Node.validateNode(n)
	switch function, expr := c.FuncCode.Value != "", c.Expr.Value != ""; {
	case function && expr:
		ds = append(ds, n.Get("expr").Errorf("node", "func_code stands here already: a node does one thing"))
	case !function && !expr:
		ds = append(ds, n.Errorf("node", "the node does nothing: it needs func_code, a function of the program, or expr, an expression"))
	}
	return ds
}

// Bind finds the function, or compiles the expression.
func (c *functionNodeConfig) Bind(f *Functions) spec.Diagnostics {
	if c.Expr.Value != "" {
		x, ds := compileIn(c.Expr, inputEnv(), template.Compile)
		c.fn = func(ctx context.Context, m *CallbackContext, input any) (any, error) {
			return x.Eval(ctx, m.inputVars(input))
		}
		return ds
	}
	if c.fn = f.Nodes[c.FuncCode.Value]; c.fn == nil && c.FuncCode.Value != "" {
		return spec.Diagnostics{c.FuncCode.Errorf(0, "code", "function %s is code of another program: of this one, a FunctionNode may name %s",
			c.FuncCode.Value, joinNames(slices.Sorted(maps.Keys(f.Nodes)))).
			WithHint("write the node as an expression (expr), or register the function under Functions.Nodes")}
	}
	return nil
}

// funcCode is the name of a function, by itself or as {name: NAME}.
type funcCode struct{ spec.Text }

// DecodeSpec accepts both forms. A leading dot stands for the app's own package.
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

// FunctionNodeOptions are what a function node may be given.
type FunctionNodeOptions struct {
	Description string
	// OutputKey is the state key that keeps what the node gives.
	OutputKey string
}

// A FunctionNode is a node of a [Workflow] that computes: one event has what it
// gives, as a value for the nodes behind it and as text for whoever reads. It
// may stand wherever agents do; elsewhere than in a workflow its input is what
// the user said.
type FunctionNode struct {
	Base
	fn        NodeFunc
	outputKey string
}

// NewFunctionNode makes a function node; nil options are fine.
func NewFunctionNode(name string, fn NodeFunc, opts *FunctionNodeOptions) *FunctionNode {
	if opts == nil {
		opts = &FunctionNodeOptions{}
	}
	return &FunctionNode{Base{AgentName: name, AgentDescription: opts.Description}, fn, opts.OutputKey}
}

// Run calls the function and yields what it gives. A resumed node that has
// given something does not run again.
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

// setNodeOutput puts what a node gives on its event.
func setNodeOutput(ev *session.Event, value any, key string) {
	if said, ok := value.(*genai.Content); ok {
		ev.Content, ev.Output = said, model.TextOf(said)
	} else if value != nil {
		ev.Output = session.Normalize(value)
		ev.Content = model.ModelText(template.String(ev.Output))
	}
	if key != "" {
		ev.Actions.SetState(key, ev.Output)
	}
}

func (inv *Invocation) wrapNodeError(ctx context.Context, err error) error {
	var told *RunError
	switch {
	case errors.As(err, &told):
		return told
	case ctx.Err() != nil:
		return AsRunError(ctx.Err())
	}
	return failf(CodeAgentFailed, err, "node %s failed: %s", inv.node.agent.Name(), strings.TrimSpace(err.Error()))
}

// Input is what the node before this one gave, in a [Workflow]: of a JoinNode a
// mapping by the names of those that it joined, at the beginning what the user
// said. An agent that stands elsewhere gets the latter.
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

// inputEnv declares the names that the expressions of a node may use.
func inputEnv() template.Env {
	env := conditionEnv()
	env["input"] = nil
	return env
}

package agentconfig

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// nodeConfig is the YAML that nodes without agents share. The names come from ADK's graph (adk-go
// internal/configurable/configurable_workflow.go).
type nodeConfig struct {
	AgentClass  spec.Text  `yaml:"agent_class" doc:"FunctionNode or ToolNode."`
	Name        spec.Text  `yaml:"name" required:"true" doc:"The node's name: letters, digits and underscores."`
	Description string     `yaml:"description" doc:"Node description."`
	When        *Condition `yaml:"when" doc:"Run the node only when this is true, and skip it otherwise."`
	OutputKey   string     `yaml:"output_key" doc:"State key that receives the node output."`

	RerunOnResume *bool        `yaml:"rerun_on_resume" doc:"false: the user's answer to a question or a long-running call is the node output, as it always is; not for a tool with confirm, which runs after the answer."`
	Worker        workerConfig `yaml:",inline"`

	Timeout     seconds      `yaml:"timeout" doc:"Time limit for each node attempt, in seconds or with a unit. Default: no limit."`
	RetryConfig *retryConfig `yaml:"retry_config" doc:"Repeat the node in a Workflow when it fails. Each failed attempt is an event with its error."`

	Callbacks agentCallbackLists `yaml:",inline"`
}

func (c *nodeConfig) validateNode(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	ds = append(ds, c.Worker.checkWorker(n)...)
	if c.RetryConfig != nil {
		ds = append(ds, c.RetryConfig.checkValues(n.Get("retry_config"))...)
	}
	return ds
}

// functionNodeConfig is a FunctionNode's YAML.
type functionNodeConfig struct {
	Node     nodeConfig `yaml:",inline"`
	FuncCode funcCode   `yaml:"func_code" doc:"Name of a function registered by the program."`
	Expr     spec.Expr  `yaml:"expr" doc:"Expression that computes the output instead of a function; can use input, state, user, session, run_config, invocation and agent."`
	Message  bool       `yaml:"message" doc:"The output is also a message, as text or JSON: clients show it, and later models read it. Default: false, only an output, as in ADK."`

	fn runtime.NodeFunc
}

// Check requires either func_code or expr.
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
		x, ds := compileExpr(c.Expr, inputEnv(), template.Compile)
		c.fn = func(ctx context.Context, m *runtime.CallbackContext, input any) (any, error) {
			return x.Eval(ctx, inputVars(m, input))
		}
		return ds
	}
	if c.fn = f.Nodes[c.FuncCode.Value]; c.fn == nil && c.FuncCode.Value != "" {
		return spec.Diagnostics{c.FuncCode.Errorf(0, "code", "unknown function %s: functions registered for a FunctionNode: %s",
			c.FuncCode.Value, cmp.Or(strings.Join(slices.Sorted(maps.Keys(f.Nodes)), ", "), "none")).
			WithHint("write the node as an expression (expr), or register the function in Functions.Nodes")}
	}
	return nil
}

// funcCode is a function's name, as a string or as {name: NAME}.
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

func newConfiguredFunctionNode(_ context.Context, _ AgentEnv, c *functionNodeConfig) (runtime.Agent, error) {
	node := runtime.NewFunctionNode(c.Node.Name.Value, c.fn, &runtime.FunctionNodeOptions{Description: c.Node.Description, OutputKey: c.Node.OutputKey, Message: c.Message})
	node.SetAttempts(c.Node.buildAttempts())
	c.Node.Worker.applyTo(&node.Base)
	return node, nil
}

// workerConfig is the YAML of a node that runs for each list element.
type workerConfig struct {
	ParallelWorker bool `yaml:"parallel_worker" doc:"In a Workflow: run the node once for each input element, at the same time. The output is the list of all outputs."`
	MaxWorkers     int  `yaml:"max_parallel_workers" doc:"Maximum runs at the same time. Default: no limit."`
}

// checkWorker reports a limit without effect.
func (c *workerConfig) checkWorker(n *spec.Node) spec.Diagnostics {
	at := n.Get("max_parallel_workers")
	switch {
	case at.IsNull():
		return nil
	case !c.ParallelWorker:
		return spec.Diagnostics{at.Errorf("node", "max_parallel_workers requires parallel_worker: true")}
	case c.MaxWorkers < 1:
		return spec.Diagnostics{at.Errorf("node", "max_parallel_workers must be at least 1, got %s", at.Value)}
	}
	return nil
}

func (c *workerConfig) applyTo(agent *runtime.Base) {
	if c.ParallelWorker {
		agent.SetListWorker(c.MaxWorkers)
	}
}

// inputVars returns the values for the names in inputEnv.
func inputVars(m *runtime.CallbackContext, input any) map[string]any {
	vars := m.Invocation.ExprVars()
	vars["input"] = input
	return vars
}

// inputEnv declares the names available to a node's expressions.
func inputEnv() template.Env {
	env := runtime.ExprEnv()
	env["input"] = nil
	return env
}

// toolNodeConfig is a ToolNode's YAML.
type toolNodeConfig struct {
	Node     nodeConfig           `yaml:",inline"`
	ToolCode toolCode             `yaml:"tool_code" required:"true" doc:"The tool: a name, or a tool as in tools of an agent."`
	ToolName spec.Text            `yaml:"tool_name" doc:"The tool to call, by its name for models, if tool_code is a toolset, such as an MCP server."`
	Args     map[string]spec.Expr `yaml:"args" doc:"The arguments, each an expression that can use input, state, user, session, run_config, invocation and agent. Default: the input."`

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
		x, found := compileExpr(c.Args[key], inputEnv(), template.Compile)
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

func newConfiguredToolNode(_ context.Context, env AgentEnv, c *toolNodeConfig) (runtime.Agent, error) {
	opts := &runtime.ToolNodeOptions{Description: c.Node.Description, OutputKey: c.Node.OutputKey}
	if c.args != nil {
		opts.Args = c.evaluateArgs
	}
	var node *runtime.ToolNode
	if len(env.Toolsets) > 0 {
		if ds := c.checkToolset(); ds != nil {
			return nil, ds
		}
		node = runtime.NewToolsetNode(c.Node.Name.Value, env.Toolsets[0], c.ToolName.Value, opts)
	} else {
		t, err := c.selectTool(env.Tools)
		if err != nil {
			return nil, err
		}
		node = runtime.NewToolNode(c.Node.Name.Value, t, opts)
	}
	node.SetAttempts(c.Node.buildAttempts())
	c.Node.Worker.applyTo(&node.Base)
	return node, nil
}

// checkToolset reports settings that do not fit a set whose tools are unknown before a run.
func (c *toolNodeConfig) checkToolset() error {
	switch rerun := c.Node.RerunOnResume; {
	case c.ToolName.Value == "":
		return spec.Diagnostics{c.Node.Name.Errorf(0, "node", "node %s: tool_name is required: the server lists its tools when the node runs", c.Node.Name.Value).
			WithHint("write tool_name: NAME next to tool_code, with the tool's name as models see it")}
	case rerun != nil && !*rerun:
		return spec.Diagnostics{c.Node.Name.Errorf(0, "node", "node %s: rerun_on_resume must be true for a tool of a server, which may need approval or a credential", c.Node.Name.Value)}
	}
	return nil
}

// selectTool returns the tool to call: the only one, or the one with tool_name.
func (c *toolNodeConfig) selectTool(tools []tool.Tool) (tool.Tool, error) {
	var t tool.Tool
	switch name := c.ToolName; {
	case name.Value != "":
		var err error
		if t, err = tool.SelectTool(tools, name.Value); err != nil {
			return nil, spec.Diagnostics{name.Errorf(0, "unknown-name", "node %s: %s", c.Node.Name.Value, err)}
		}
	case len(tools) == 1:
		t = tools[0]
	default:
		unknown := &tool.UnknownToolError{}
		for _, one := range tools {
			unknown.Names = append(unknown.Names, one.Declaration().Name)
		}
		return nil, spec.Diagnostics{c.Node.Name.Errorf(0, "node", "node %s: tool_name is required: the toolset has %d tools", c.Node.Name.Value, len(tools)).
			WithHint("write tool_name: NAME next to tool_code; the tools are %s", unknown.FormatNames())}
	}
	if rerun := c.Node.RerunOnResume; rerun != nil && !*rerun && tool.CapabilitiesOf(t).Confirm != nil {
		return nil, spec.Diagnostics{c.Node.Name.Errorf(0, "node", "node %s: rerun_on_resume must be true for a tool with confirm, which runs after the answer", c.Node.Name.Value)}
	}
	return t, nil
}

func (c *toolNodeConfig) evaluateArgs(ctx context.Context, m *runtime.CallbackContext, input any) (any, error) {
	args := map[string]any{}
	vars := inputVars(m, input)
	for key, x := range c.args {
		v, err := x.Eval(ctx, vars)
		if err != nil {
			return nil, fmt.Errorf("args: %s: %w", key, err)
		}
		args[key] = v
	}
	return args, nil
}

// joinConfig is a JoinNode's YAML.
type joinConfig struct {
	AgentClass  spec.Text `yaml:"agent_class" doc:"JoinNode."`
	Name        spec.Text `yaml:"name" required:"true" doc:"The node's name."`
	Description string    `yaml:"description" doc:"Node description."`
}

func newJoin(_ context.Context, _ AgentEnv, c *joinConfig) (runtime.Agent, error) {
	return runtime.NewJoin(c.Name.Value, c.Description), nil
}

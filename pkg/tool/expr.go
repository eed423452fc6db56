package tool

import (
	"context"
	"fmt"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

type exprConfig struct {
	Tool    toolConfig    `yaml:",inline"`
	Value   spec.Expr     `yaml:"value" required:"true" doc:"The result: a map is returned unchanged, any other value as {result: …}."`
	Writes  StateWrites   `yaml:",inline"`
	Timeout spec.Duration `yaml:"timeout" doc:"Maximum duration of a call."`
}

func newExpr(_ context.Context, _ Env, c *exprConfig) (Set, error) {
	d, err := c.Tool.declare()
	if err != nil {
		return nil, err
	}
	t := &exprTool{Declared: d, capabilities: c.Tool.capabilities(c.Timeout)}
	read, env := configCompiler{params: d.params}, callEnv(d.params)
	t.capabilities.Confirm = read.compileConfirm(c.Tool.Confirm, d.decl.Name)
	t.value = read.compileExpr(c.Value, env)
	t.writes = c.Writes.Assignments(func(e spec.Expr) *template.Expr { return read.compileExpr(e, env) })
	if key := c.Writes.duplicateKey(); key != "" {
		read.addDiagnostic(c.Tool.Name.Errorf(0, "tool", "the state key %s appears more than once in %s", key, strings.Join(WriteVerbs(), ", ")))
	}
	return read.buildSet(t)
}

// An exprTool returns the value of an expression.
type exprTool struct {
	*Declared
	capabilities Capabilities
	value        *template.Expr
	writes       []Assignment
}

// Capabilities returns the settings of the document.
func (t *exprTool) Capabilities() Capabilities { return t.capabilities }

// Run implements [Tool]. All expressions use the state from before the call; if
// one fails, nothing is written.
func (t *exprTool) Run(ctx context.Context, call *Call) (*Result, error) {
	call, err := t.CheckCall(call)
	if err != nil {
		return nil, err
	}
	return RunWithTimeout(ctx, t.decl.Name, t.capabilities.Timeout, func(ctx context.Context) (*Result, error) {
		return t.evaluate(ctx, call)
	})
}

func (t *exprTool) evaluate(ctx context.Context, call *Call) (*Result, error) {
	vars := callVars(call)
	value, err := t.value.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("%s: value: %w", t.decl.Name, err)
	}
	if err := Assign(ctx, t.writes, vars, call.State); err != nil {
		return nil, fmt.Errorf("%s: %w", t.decl.Name, err)
	}
	if value == nil && t.capabilities.LongRunning {
		return nil, nil
	}
	return newResult(value), nil
}

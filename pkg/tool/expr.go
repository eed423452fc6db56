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
	Value   spec.Expr     `yaml:"value" required:"true" doc:"The answer: a map as it is, anything else as {result: …}."`
	Writes  StateWrites   `yaml:",inline"`
	Timeout spec.Duration `yaml:"timeout" doc:"How long a call may take."`
}

func newExpr(_ context.Context, _ Env, c *exprConfig) (Set, error) {
	d, err := c.Tool.declare()
	if err != nil {
		return nil, err
	}
	t := &exprTool{declared: d, traits: c.Tool.traits(c.Timeout)}
	read, env := compiler{params: d.params}, envOf(d.params)
	t.traits.Confirm = read.confirm(c.Tool.Confirm, d.decl.Name)
	t.value = read.expr(c.Value, env)
	t.writes = c.Writes.Assignments(func(e spec.Expr) *template.Expr { return read.expr(e, env) })
	if key := c.Writes.repeated(); key != "" {
		read.add(c.Tool.Name.Errorf(0, "tool", "the state key %s appears more than once in %s", key, strings.Join(WriteVerbs(), ", ")))
	}
	return read.set(t)
}

// An exprTool answers with the value of an expression.
type exprTool struct {
	*declared
	traits Capabilities
	value  *template.Expr
	writes []Assignment
}

// Capabilities says what the document asked for.
func (t *exprTool) Capabilities() Capabilities { return t.traits }

// Run implements [Tool]. All expressions see the state as it was before the
// call; nothing is written when one of them fails.
func (t *exprTool) Run(ctx context.Context, call *Call) (*Result, error) {
	call, err := t.checked(call)
	if err != nil {
		return nil, err
	}
	return within(ctx, t.decl.Name, t.traits.Timeout, func(ctx context.Context) (*Result, error) {
		return t.compute(ctx, call)
	})
}

func (t *exprTool) compute(ctx context.Context, call *Call) (*Result, error) {
	vars := varsOf(call)
	value, err := t.value.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("%s: value: %w", t.decl.Name, err)
	}
	if err := Assign(ctx, t.writes, vars, call.State); err != nil {
		return nil, fmt.Errorf("%s: %w", t.decl.Name, err)
	}
	if value == nil && t.traits.LongRunning {
		return nil, nil
	}
	return answer(value), nil
}

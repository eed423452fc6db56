package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

type exprConfig struct {
	Tool    toolConfig           `yaml:",inline"`
	Value   spec.Expr            `yaml:"value" required:"true" doc:"The answer: a map as it is, anything else as {result: …}."`
	Set     map[string]spec.Expr `yaml:"set" doc:"State keys to write, each with its expression; null removes the key."`
	Timeout spec.Duration        `yaml:"timeout" doc:"How long a call may take."`
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
	for _, key := range slices.Sorted(maps.Keys(c.Set)) {
		t.set = append(t.set, assignment{key, read.expr(c.Set[key], env)})
	}
	return read.set(t)
}

// An exprTool answers with the value of an expression.
type exprTool struct {
	*declared
	traits Traits
	value  *template.Expr
	set    []assignment
}

type assignment struct {
	key   string
	value *template.Expr
}

// Traits says what the document asked for.
func (t *exprTool) Traits() Traits { return t.traits }

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
	writes, err := t.writes(ctx, vars)
	if err != nil {
		return nil, err
	}
	for key, v := range writes {
		call.State.Set(key, v)
	}
	if value == nil && t.traits.LongRunning {
		return nil, nil
	}
	return answer(value), nil
}

func (t *exprTool) writes(ctx context.Context, vars map[string]any) (map[string]any, error) {
	writes := make(map[string]any, len(t.set))
	for _, a := range t.set {
		v, err := a.value.Eval(ctx, vars)
		if err != nil {
			return nil, fmt.Errorf("%s: set %s: %w", t.decl.Name, a.key, err)
		}
		writes[a.key] = v
	}
	return writes, nil
}

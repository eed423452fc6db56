package builtin

import (
	"context"
	"fmt"
	"strings"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

type exprConfig struct {
	Tool    toolconfig.Config        `yaml:",inline"`
	Value   spec.Expr                `yaml:"value" required:"true" doc:"The result: a map is returned unchanged, any other value as {result: …}."`
	Writes  toolconfig.StateWrites   `yaml:",inline"`
	Saves   toolconfig.ArtifactSaves `yaml:"save_artifact" doc:"Session artifacts to save, each with its expression. Names may contain {args.x} and {state.key}. A string has the media type for the name's extension, any other value is JSON; null saves nothing."`
	Timeout spec.Duration            `yaml:"timeout" doc:"Maximum call duration."`
}

var (
	_ tool.StateConfig = (*exprConfig)(nil)
	_ spec.Checker     = (*exprConfig)(nil)
)

func newExpr(_ context.Context, _ tool.Env, c *exprConfig) (tool.Set, error) {
	d, err := c.Tool.DeclareTool()
	if err != nil {
		return nil, err
	}
	t := &exprTool{Declared: d, capabilities: c.Tool.Capabilities(c.Timeout)}
	read, env := toolconfig.Compiler{Params: d.Params()}, c.Tool.ExprEnv(d.Params())
	read.SetConfirm(&t.capabilities, &c.Tool.Confirm, d.Declaration().Name)
	t.value = read.CompileExpr(c.Value, env)
	t.writes = c.Writes.Assignments(func(e spec.Expr) *template.Expr { return read.CompileExpr(e, env) })
	t.capabilities.WritesState = len(t.writes) > 0
	t.saves = read.CompileSaves(c.Saves, env)
	if key := c.Writes.DuplicateKey(); key != "" {
		read.AddDiagnostic(c.Tool.Name.Errorf(0, "tool", "the state key %s appears more than once in %s", key, strings.Join(toolconfig.WriteVerbs(), ", ")))
	}
	return read.BuildSet(t)
}

// Check warns about a timeout that sets no limit, and about unused parameters.
func (c *exprConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := append(toolconfig.CheckTimeout(n), c.Tool.Async.CheckAsync(n, c.Tool.LongRunning, false)...)
	used := toolconfig.ExprArgs(c.Value)
	for _, e := range c.Writes.Exprs() {
		used = append(used, toolconfig.ExprArgs(e)...)
	}
	for _, s := range c.Saves {
		used = append(used, toolconfig.ExprArgs(s.Value)...)
		used = append(used, toolconfig.TextArgs(s.Name)...)
	}
	if len(used) == 0 {
		return ds // callbacks may use the arguments instead
	}
	return append(ds, c.Tool.CheckUnusedParams(n, used)...)
}

// StateUse returns the tool's expressions and the keys that it writes.
func (c *exprConfig) StateUse(n *spec.Node) tool.StateUse {
	var u tool.StateUse
	d, err := c.Tool.DeclareTool()
	if err != nil {
		return u // already reported
	}
	env := c.Tool.ExprEnv(d.Params())
	u.Exprs = append(u.Exprs, tool.StateExpr{Expr: c.Value, Env: env})
	for _, e := range c.Writes.Exprs() {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: e, Env: env})
	}
	for _, s := range c.Saves {
		u.Exprs = append(u.Exprs, tool.StateExpr{Expr: s.Value, Env: env})
		u.AddPaths(s.Name, c.Tool.IsCallName)
	}
	toolconfig.AddWrites(&u, n, tool.StateWrite{})
	u.AddConfirm(c.Tool.Confirm.When, env)
	return u
}

// An exprTool returns an expression's value.
type exprTool struct {
	*tool.Declared
	capabilities tool.Capabilities
	value        *template.Expr
	writes       []toolconfig.Assignment
	saves        []toolconfig.ArtifactSave
}

// Capabilities returns the document's settings.
func (t *exprTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [tool.Tool]. All expressions use the state from before the call; if
// one fails, nothing is written.
func (t *exprTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return tool.RunWithTimeout(ctx, t.Declaration().Name, t.capabilities.Timeout, func(ctx context.Context) (*tool.Result, error) {
		return t.evaluate(ctx, call)
	})
}

func (t *exprTool) evaluate(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	vars := toolconfig.CallVars(call)
	value, err := t.value.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("%s: value: %w", t.Declaration().Name, err)
	}
	if err := toolconfig.WriteResults(ctx, t.writes, t.saves, vars, call); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Declaration().Name, err)
	}
	if value == nil && t.capabilities.LongRunning {
		return nil, nil
	}
	return tool.NewResult(value), nil
}

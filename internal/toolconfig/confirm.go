package toolconfig

import (
	"context"
	"fmt"
	"maps"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// CompileConfirm compiles a document's confirm: an expression over the variables for tool
// expressions. It returns nil if there is none. The error is a [spec.Diagnostics].
func CompileConfirm(src spec.Expr, decl *genai.FunctionDeclaration) (tool.Confirmer, error) {
	rule, err := CompileConfirmRule(src, decl, nil)
	if rule == nil || err != nil {
		return nil, err
	}
	return rule.With(nil), nil
}

// A ConfirmRule is the compiled confirm for a tool set, whose variables may differ between the
// tools.
type ConfirmRule struct {
	name   string
	params *tool.Params
	when   *template.Expr
}

// CompileConfirmRule is [CompileConfirm] for expressions with further variables. It
// returns nil if there is no expression.
func CompileConfirmRule(src spec.Expr, decl *genai.FunctionDeclaration, more template.Env) (*ConfirmRule, error) {
	params, err := declare.Params(decl)
	if err != nil {
		return nil, spec.Diagnostics{src.Errorf(0, "tool", "%s", err)}
	}
	if src.Pos == (spec.Pos{}) {
		return nil, nil
	}
	env := CallEnv(params)
	maps.Copy(env, more)
	x, err := template.CompileBool(src.Value, env)
	if err != nil {
		return nil, spec.Diagnostics{tool.NewTemplateDiagnostic(src.Text, "expression", err)}
	}
	return &ConfirmRule{decl.Name, params, x}, nil
}

// With returns the rule for calls with these values for its further variables.
func (r *ConfirmRule) With(vars map[string]any) tool.Confirmer {
	return &confirmExpr{r.name, r.params, r.when, vars}
}

// A confirmExpr requires confirmation when an expression is true.
type confirmExpr struct {
	name   string
	params *tool.Params
	when   *template.Expr
	// vars are further variables, by name.
	vars map[string]any
}

// NeedsConfirmation implements [tool.Confirmer]. Arguments that the tool would
// reject are an error, so that no confirmation is requested.
func (e *confirmExpr) NeedsConfirmation(ctx context.Context, call *tool.Call) (bool, error) {
	args, err := e.params.Check(ctx, call.Args)
	if err != nil {
		return false, err
	}
	checked := *call
	checked.Args = args
	vars := CallVars(&checked)
	maps.Copy(vars, e.vars)
	needed, err := e.when.Bool(ctx, vars)
	if err != nil {
		return false, fmt.Errorf("%s: confirm: %w", e.name, err)
	}
	return needed, nil
}

// ConfirmUse returns how a document's confirm uses the state; any arguments are valid.
func ConfirmUse(e spec.Expr) tool.StateUse { return ConfirmRuleUse(e, nil) }

// ConfirmRuleUse is [ConfirmUse] for expressions with further variables.
func ConfirmRuleUse(e spec.Expr, more template.Env) tool.StateUse {
	var u tool.StateUse
	env := CallEnv(&tool.Params{})
	env["args"] = map[string]any{}
	maps.Copy(env, more)
	u.AddConfirm(e, env)
	return u
}

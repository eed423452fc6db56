package runtime

import (
	"errors"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// conditionEnv declares the names that an agent's conditions may use.
func conditionEnv() template.Env {
	return template.Env{
		"state":      map[string]any{},
		"user":       "",
		"session":    map[string]any{},
		"invocation": map[string]any{},
		"agent":      "",
	}
}

// conditionVars are the values of those names.
func (inv *Invocation) conditionVars() map[string]any {
	r := inv.run
	return map[string]any{
		"state":      r.stateWithDefaults(),
		"user":       r.userText,
		"session":    map[string]any{"id": r.sess.ID, "user_id": r.sess.User, "app": r.sess.App},
		"invocation": map[string]any{"id": r.id},
		"agent":      inv.node.agent.Name(),

		template.BudgetName: r.expressions,
	}
}

// compileCondition compiles a boolean expression, and reports errors at their
// position.
func compileCondition(e spec.Expr) (*template.Expr, spec.Diagnostics) {
	return compileConditionIn(e, conditionEnv())
}

func compileConditionIn(e spec.Expr, env template.Env) (*template.Expr, spec.Diagnostics) {
	return compileIn(e, env, template.CompileBool)
}

// compileIn compiles an expression. It returns nil for a value that is not a
// string, which the decoder reports.
func compileIn(e spec.Expr, env template.Env, compile func(string, template.Env) (*template.Expr, error)) (*template.Expr, spec.Diagnostics) {
	if e.Pos.Line == 0 {
		return nil, nil
	}
	compiled, err := compile(e.Value, env)
	var te *template.Error
	switch {
	case errors.As(err, &te):
		return nil, spec.Diagnostics{e.Errorf(te.Offset, "expression", "%s", te.Msg)}
	case err != nil:
		return nil, spec.Diagnostics{e.Errorf(0, "expression", "%s", err)}
	}
	return compiled, nil
}

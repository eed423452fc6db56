package apptest

import (
	"context"

	"agenthost/internal/turn"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// expectation is one expression that must be true.
type expectation struct {
	src   spec.Expr
	when  *template.Expr
	parts []turn.Part
}

// checkTurn checks the expectation after a turn; nil means that it holds.
func (e *expectation) checkTurn(ctx context.Context, vars map[string]any) *Failure {
	met, err := e.when.Bool(ctx, vars)
	if met {
		return nil
	}
	f := &Failure{Expression: e.src.Value, Diagnostic: e.src.Errorf(0, "test-failed", "%s is false", e.src.Value)}
	if err != nil {
		f.Diagnostic = e.src.Errorf(0, "test-failed", "cannot evaluate %s: %s", e.src.Value, err)
	}
	f.Values = turn.EvalParts(ctx, e.parts, vars)
	return f
}

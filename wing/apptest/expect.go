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

// A Failure is an expectation that does not hold, or a turn that failed.
type Failure struct {
	// Turn counts from 1.
	Turn int
	// Expression is the expectation; empty if the turn itself failed.
	Expression string
	Diagnostic spec.Diagnostic
	// Values are the values of the expression's parts.
	Values []turn.Value
}

// Lines returns the values, one per line.
func (f *Failure) Lines() []string {
	lines := make([]string, len(f.Values))
	for i, v := range f.Values {
		lines[i] = v.String()
	}
	return lines
}

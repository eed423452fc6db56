package evalfile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"agenthost/internal/turn"
	"agenthost/pkg/model"
	"agenthost/pkg/template"
	"agenthost/wing/evaluation/eval"
)

// An Expression is a metric's compiled expression: it scores a turn.
type Expression struct {
	source string
	value  *template.Expr
	parts  []turn.Part
}

// newExpressionEnv declares the variables for metrics: the test variables without the error,
// since a turn that ends with an error fails its case, and the evaluation variables.
func newExpressionEnv(state map[string]any) template.Env {
	env := turn.NewEnv(state)
	delete(env, "error")
	env["user"], env["duration"], env["turn"], env["turns"] = "", 0.0, 0, 0
	env["expected"] = template.Env{"text": "", "calls": []any{template.Env{"name": "", "args": map[string]any{}}}}
	return env
}

// A ScoredTurn is a turn that expressions score.
type ScoredTurn struct {
	Outcome *turn.Outcome
	Actual  *eval.Invocation
	// Expected is nil for a simulated user's turn.
	Expected *eval.Invocation
	// Number is the turn's, from 1; Count counts all turns.
	Number, Count int
}

// Vars returns the values for expression variables.
func (t *ScoredTurn) Vars() map[string]any {
	vars := t.Outcome.Vars()
	delete(vars, "error")
	vars["user"], vars["turn"], vars["turns"] = model.TextOf(t.Actual.UserContent), t.Number, t.Count
	if t.Actual.Duration != nil {
		vars["duration"] = *t.Actual.Duration
	}
	vars["expected"] = nil
	if t.Expected != nil {
		calls := []any{}
		for _, c := range t.Expected.Calls() {
			calls = append(calls, map[string]any{"name": c.Name, "args": turn.EmptyIfNil(c.Args)})
		}
		vars["expected"] = map[string]any{"text": model.TextOf(t.Expected.FinalResponse), "calls": calls}
	}
	return vars
}

// CompileExpression compiles a metric's expression. State has sample values for the app's
// typed keys. The error is a [*template.Error] if it has a position.
func CompileExpression(source string, state map[string]any) (*Expression, error) {
	env := newExpressionEnv(state)
	value, err := template.Compile(source, env)
	if err != nil {
		return nil, err
	}
	// A number can be multiplied. The line break ends a comment.
	_, notBool := template.CompileBool(source, env)
	_, notNumber := template.Compile("("+source+"\n) * 1", env)
	if notBool != nil && notNumber != nil {
		return nil, errors.New("the expression must be true or false, or a number from 0 to 1")
	}
	return &Expression{source, value, turn.CompileParts(source, env)}, nil
}

// ScoreTurn returns a turn's score: 1 for true, 0 for false, or a number from 0 to 1; nil if
// the turn does not count. The values explain it.
func (e *Expression) ScoreTurn(ctx context.Context, vars map[string]any) (score *float64, values string, err error) {
	result, err := e.value.Eval(ctx, vars)
	if err != nil {
		return nil, "", fmt.Errorf("cannot evaluate %s: %w", e.source, err)
	}
	number := 0.0
	switch v := result.(type) {
	case nil:
		return nil, "", nil
	case bool:
		if v {
			number = 1
		}
	case int64:
		number = float64(v)
	case float64:
		number = v
	default:
		return nil, "", fmt.Errorf("%s is %s, expected true, false or a number from 0 to 1", e.source, turn.TruncateText(template.String(result)))
	}
	if !(number >= 0 && number <= 1) {
		return nil, "", fmt.Errorf("%s is %v, expected a number from 0 to 1", e.source, number)
	}
	var lines []string
	for _, v := range turn.EvalParts(ctx, e.parts, vars) {
		lines = append(lines, v.String())
	}
	return &number, strings.Join(lines, "; "), nil
}

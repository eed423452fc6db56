package runtime

import (
	"context"
	"encoding/json"
	"fmt"

	"agenthost/pkg/template"
)

// CodeExpr is the name of [ExprExecutor] in documents.
const CodeExpr = "expr"

// An ExprExecutor runs code that is one expression of the language that
// documents have: it computes, reads the names that an agent's conditions see,
// and reaches nothing else. What it tells is the value, a text as it is and
// anything else as JSON.
type ExprExecutor struct{}

// ExecuteCode evaluates the expression.
func (ExprExecutor) ExecuteCode(ctx context.Context, m *CallbackContext, code *Code) (*CodeResult, error) {
	x, err := template.Compile(code.Source, conditionEnv())
	if err != nil {
		return nil, err
	}
	v, err := x.Eval(ctx, m.Invocation.conditionVars())
	if err != nil {
		return nil, err
	}
	if text, ok := v.(string); ok {
		return &CodeResult{Stdout: text}, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("the value cannot be told: %w", err)
	}
	return &CodeResult{Stdout: string(b)}, nil
}

package runtime

import (
	"context"
	"encoding/json"
	"fmt"

	"agenthost/pkg/template"
)

// CodeExpr is the name of [ExprExecutor] in documents.
const CodeExpr = "expr"

// An ExprExecutor runs code that is one expression of the configuration
// language. It can use the names that conditions have, and has no other
// access. The result is a string as it is, and any other value as JSON.
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
		return nil, fmt.Errorf("cannot encode the result: %w", err)
	}
	return &CodeResult{Stdout: string(b)}, nil
}

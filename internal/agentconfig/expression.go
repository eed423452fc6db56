package agentconfig

import (
	"errors"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A Condition is a boolean expression in YAML. It is compiled when it is decoded,
// so that errors are reported at their position.
type Condition struct {
	spec.Expr
	Compiled *runtime.Condition
}

// DecodeSpec reads and compiles the expression.
func (c *Condition) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := c.Expr.DecodeSpec(n)
	if ds.HasErrors() {
		return ds
	}
	c.Compiled, ds = compileCondition(c.Expr)
	return ds
}

// SchemaSpec returns an expression's schema.
func (c *Condition) SchemaSpec() map[string]any {
	schema := c.Expr.SchemaSpec()
	schema["title"] = "expression"
	return schema
}

// compileCondition compiles a boolean expression, and reports errors at their
// position.
func compileCondition(e spec.Expr) (*runtime.Condition, spec.Diagnostics) {
	if e.Pos.Line == 0 { // not a string, which the decoder reports
		return nil, nil
	}
	compiled, err := runtime.NewCondition(e.Value)
	return compiled, expressionProblems(e, err)
}

// compileExpr compiles an expression with a function from package template. It returns nil for a
// value that is not a string, which the decoder reports.
func compileExpr(e spec.Expr, env template.Env, compile func(string, template.Env) (*template.Expr, error)) (*template.Expr, spec.Diagnostics) {
	if e.Pos.Line == 0 {
		return nil, nil
	}
	compiled, err := compile(e.Value, env)
	return compiled, expressionProblems(e, err)
}

func expressionProblems(e spec.Expr, err error) spec.Diagnostics {
	var te *template.Error
	switch {
	case errors.As(err, &te):
		return spec.Diagnostics{tool.NewTemplateDiagnostic(e.Text, "expression", te)}
	case err != nil:
		return spec.Diagnostics{e.Errorf(0, "expression", "%s", err)}
	}
	return nil
}

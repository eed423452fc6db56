package tool

import (
	"errors"
	"time"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A toolConfig holds the settings common to all kinds.
type toolConfig struct {
	Name        spec.Text        `yaml:"name" required:"true" doc:"The name that the model calls."`
	Description string           `yaml:"description" doc:"Description of the tool for the model."`
	Params      spec.ShortSchema `yaml:"params" doc:"The parameters, as a short schema or a JSON Schema."`
	OnError     string           `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	LongRunning bool             `yaml:"long_running" doc:"Long-running: the client supplies the final result later; null returns no interim response."`
	Confirm     spec.Expr        `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, invocation and agent."`
}

// declare builds the declaration. The error is a [spec.Diagnostics].
func (c *toolConfig) declare() (*Declared, error) {
	d, err := NewDeclared(c.Name.Value, c.Description, c.Params.JSON())
	if err != nil {
		return nil, spec.Diagnostics{c.Name.Errorf(0, "tool", "%s", err)}
	}
	if c.LongRunning {
		d.addPendingNote()
	}
	return d, nil
}

func (c *toolConfig) capabilities(timeout spec.Duration) Capabilities {
	return Capabilities{
		LongRunning: c.LongRunning,
		Timeout:     time.Duration(timeout),
		FailOnError: c.OnError == "fail",
	}
}

// A configCompiler compiles the templates and expressions of one tool, and
// collects their diagnostics.
type configCompiler struct {
	params      *Params
	diagnostics spec.Diagnostics
}

func (c *configCompiler) addDiagnostic(d spec.Diagnostic) { c.diagnostics = append(c.diagnostics, d) }

// compileExpr returns nil if the expression is absent or not a string, which
// the decoder reports.
func (c *configCompiler) compileExpr(src spec.Expr, env template.Env) *template.Expr {
	if src.Pos.Line == 0 {
		return nil
	}
	x, err := template.Compile(src.Value, env)
	if err != nil {
		c.addDiagnostic(templateError(src.Text, "expression", err))
	}
	return x
}

// buildSet returns a set of the tool if there are no errors.
func (c *configCompiler) buildSet(t Tool) (Set, error) {
	c.diagnostics.Sort()
	if err := c.diagnostics.Err(); err != nil {
		return nil, err
	}
	return One(t), nil
}

// templateError converts an error of a template to a diagnostic at its position
// in the text.
func templateError(t spec.Text, rule string, err error) spec.Diagnostic {
	offset := 0
	if te := (*template.Error)(nil); errors.As(err, &te) {
		offset = te.Offset
	}
	return t.Errorf(offset, rule, "%s", err)
}

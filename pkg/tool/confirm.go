package tool

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A Confirmer decides which calls of a tool require confirmation by a person
// before the tool runs. It is evaluated once per call, with the arguments as
// the model sent them; its error is the tool's, and the tool does not run.
type Confirmer interface {
	NeedsConfirmation(ctx context.Context, call *Call) (bool, error)
}

// A ConfirmFunc is a function that implements [Confirmer].
type ConfirmFunc func(ctx context.Context, call *Call) (bool, error)

// NeedsConfirmation implements [Confirmer].
func (f ConfirmFunc) NeedsConfirmation(ctx context.Context, call *Call) (bool, error) {
	return f(ctx, call)
}

// RequestConfirmation asks a person to confirm the call, and ends the turn: the
// tool returns (a nil result is fine), and after approval it runs again with
// the same arguments and the response in Confirmation. A rejected call does not
// run again. The hint is shown to the person; an empty hint means the default.
// The payload, which may be nil, is what the person may edit.
func (c *Call) RequestConfirmation(hint string, payload any) {
	if hint == "" {
		hint = DefaultConfirmationHint(c.Name)
	}
	if c.Actions.RequestedToolConfirmations == nil {
		c.Actions.RequestedToolConfirmations = map[string]*session.Confirmation{}
	}
	c.Actions.RequestedToolConfirmations[c.ID] = &session.Confirmation{Hint: hint, Payload: session.Normalize(payload)}
	c.Actions.SkipSummarization = true
}

// DefaultConfirmationHint is the hint for a call whose tool provides none
// (adk-python tools/function_tool.py).
func DefaultConfirmationHint(name string) string {
	return fmt.Sprintf("Please approve or reject the tool call %s() by responding with a FunctionResponse "+
		"with an expected ToolConfirmation payload.", name)
}

// CompileConfirm compiles the confirm of a document: an expression over the
// variables of tool expressions. It returns nil if there is none. The error is
// a [spec.Diagnostics].
func CompileConfirm(src spec.Expr, decl *genai.FunctionDeclaration) (Confirmer, error) {
	params, err := NewParams(decl)
	if err != nil {
		return nil, spec.Diagnostics{src.Errorf(0, "tool", "%s", err)}
	}
	read := configCompiler{params: params}
	return read.compileConfirm(src, decl.Name), read.diagnostics.Err()
}

func (c *configCompiler) compileConfirm(src spec.Expr, name string) Confirmer {
	if src.Pos == (spec.Pos{}) {
		return nil
	}
	x, err := template.CompileBool(src.Value, callEnv(c.params))
	if err != nil {
		c.addDiagnostic(templateError(src.Text, "expression", err))
		return nil
	}
	return &confirmExpr{name, c.params, x}
}

// A confirmExpr requires confirmation when an expression is true.
type confirmExpr struct {
	name   string
	params *Params
	when   *template.Expr
}

// NeedsConfirmation implements [Confirmer]. Arguments that the tool would
// reject are an error, so that no confirmation is requested.
func (e *confirmExpr) NeedsConfirmation(ctx context.Context, call *Call) (bool, error) {
	args, err := e.params.Check(call.Args)
	if err != nil {
		return false, err
	}
	checked := *call
	checked.Args = args
	needed, err := e.when.Bool(ctx, callVars(&checked))
	if err != nil {
		return false, fmt.Errorf("%s: confirm: %w", e.name, err)
	}
	return needed, nil
}

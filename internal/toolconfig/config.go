// Package toolconfig holds the YAML settings that tool kinds share, and what they compile to: the
// calls' expressions, templates and confirmations.
package toolconfig

import (
	"errors"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// A Config holds the settings common to all kinds.
type Config struct {
	Name        spec.Text        `yaml:"name" required:"true" doc:"The name that the model calls."`
	Description string           `yaml:"description" doc:"Tool description for the model."`
	Params      spec.ShortSchema `yaml:"params" doc:"The parameters, as a short schema or a JSON Schema."`
	OnError     string           `yaml:"on_error" enum:"return|fail" default:"return" doc:"Whether an error is returned to the model or ends the invocation."`
	LongRunning bool             `yaml:"long_running" doc:"Long-running: the client supplies the final result later; null returns no interim response."`
	Confirm     ConfirmConfig    `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, run_config, invocation and agent. A mapping of when and edit also lists the arguments that the person may change."`
	Async       AsyncConfig      `yaml:",inline"`
}

// Advice lists other programs' names for the settings.
func (c *Config) Advice() spec.Advice {
	return spec.Advice{
		Fields: map[string]string{
			"parameters": "params", "input_schema": "params", "inputSchema": "params", "args_schema": "params",
			"require_confirmation": "confirm", "requires_confirmation": "confirm", "needs_approval": "confirm", "require_approval": ConfirmHint, "approval": ConfirmHint,
			"is_long_running": "long_running",
			"retry":           retryHint, "retries": retryHint, "max_retries": retryHint,
		},
	}
}

// ConfirmHint leads from other programs' approval settings to confirm.
const ConfirmHint = "use confirm: true, or confirm with a condition, such as args.amount > 100"

// retryHint leads from retries, which tools do not have, to what can be set.
const retryHint = "remove it: a failed call is returned to the model, which may call again; plugins: [retry_and_reflect] in app.yaml adds advice and a limit"

// DeclareTool builds the declaration. The error is a [spec.Diagnostics].
func (c *Config) DeclareTool() (*tool.Declared, error) {
	d, err := declare.Tool(c.Name.Value, c.Description, c.Params.JSON())
	if err != nil {
		return nil, spec.Diagnostics{c.Name.Errorf(0, "tool", "%s", err)}
	}
	if !c.Params.IsFull() {
		d.DropUndeclared()
	}
	if c.LongRunning {
		decl := d.Declaration()
		decl.Description = tool.WithPendingNote(decl.Description)
	}
	return d, nil
}

// Capabilities returns the capabilities that the settings imply.
func (c *Config) Capabilities(timeout spec.Duration) tool.Capabilities {
	all := tool.Capabilities{
		LongRunning: c.LongRunning,
		Timeout:     time.Duration(timeout),
		FailOnError: c.OnError == "fail",
	}
	c.Async.SetCapabilities(&all)
	return all
}

// ExprEnv declares the variables for the tool's expressions.
func (c *Config) ExprEnv(p *tool.Params) template.Env {
	env := CallEnv(p)
	if c.Async.WatchesMedia() {
		env["media"] = template.Env{"mime_type": "", "data": ""}
	}
	return env
}

// IsCallName reports whether a placeholder's root is a call variable, and no state key.
func (c *Config) IsCallName(root string) bool {
	return root == "media" && c.Async.WatchesMedia() || IsCallName(root)
}

// A Compiler compiles one tool's templates and expressions, and collects their diagnostics.
type Compiler struct {
	Params      *tool.Params
	diagnostics spec.Diagnostics
}

// AddDiagnostic adds a problem.
func (c *Compiler) AddDiagnostic(d spec.Diagnostic) { c.diagnostics = append(c.diagnostics, d) }

// AddDiagnostics adds an error's diagnostics.
func (c *Compiler) AddDiagnostics(err error) {
	if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
		c.diagnostics = append(c.diagnostics, ds...)
	}
}

// CompileExpr returns nil if the expression is absent or not a string, which
// the decoder reports.
func (c *Compiler) CompileExpr(src spec.Expr, env template.Env) *template.Expr {
	if src.Pos.Line == 0 {
		return nil
	}
	x, err := template.Compile(src.Value, env)
	if err != nil {
		c.AddDiagnostic(tool.NewTemplateDiagnostic(src.Text, "expression", err))
	}
	return x
}

// BuildSet returns the tool's set if there are no errors.
func (c *Compiler) BuildSet(t tool.Tool) (tool.Set, error) {
	c.diagnostics.Sort()
	if err := c.diagnostics.Err(); err != nil {
		return nil, err
	}
	return tool.One(t), nil
}

// CheckUnusedParams warns about parameters that a model has to fill in but that
// nothing uses. With confirm set they may serve the person who confirms.
func (c *Config) CheckUnusedParams(n *spec.Node, used []string) spec.Diagnostics {
	params := n.Get("params")
	if params == nil || c.Confirm.When.Pos != (spec.Pos{}) || slices.ContainsFunc(used, c.isUndeclared) {
		return nil
	}
	fields := params
	declared, _ := c.Params.JSON()["properties"].(map[string]any)
	if len(declared) > 0 && params.Get("properties") != nil {
		fields = params.Get("properties")
	}
	var ds spec.Diagnostics
	for _, e := range fields.Entries {
		if _, ok := declared[e.Key.Value]; ok && !slices.Contains(used, e.Key.Value) {
			ds = append(ds, e.Key.Warnf("unused-param", "tool %s does not use its parameter %s", c.Name.Value, e.Key.Value).
				WithHint("use {args.%s} or args.%[1]s, or remove the parameter", e.Key.Value))
		}
	}
	return ds
}

// isUndeclared reports whether a used name is not a declared parameter: either
// all parameters are used, or the name itself is the problem.
func (c *Config) isUndeclared(name string) bool {
	declared, _ := c.Params.JSON()["properties"].(map[string]any)
	_, ok := declared[name]
	return !ok
}

// CheckTimeout warns about a timeout that sets no limit.
func CheckTimeout(n *spec.Node) spec.Diagnostics {
	at := n.Get("timeout")
	var d spec.Duration
	if at.IsNull() || d.DecodeSpec(at).HasErrors() || d > 0 {
		return nil
	}
	return spec.Diagnostics{at.Warnf("timeout", "timeout %s sets no limit: a call may run forever", at.Value).
		WithHint("set a maximum duration, such as 10s")}
}

// TextArgs lists the arguments in a string's placeholders.
func TextArgs(t spec.Text) []string {
	paths, err := template.ParsePaths(t.Value)
	if err != nil {
		return nil // reported when the text is compiled
	}
	var used []string
	for _, ref := range paths.Refs() {
		if root, rest, _ := strings.Cut(ref.Name, "."); root == "args" {
			name, _, _ := strings.Cut(rest, ".")
			used = append(used, name)
		}
	}
	return used
}

// ExprArgs lists the arguments that an expression uses.
func ExprArgs(e spec.Expr) []string {
	uses := template.UsesOf(e.Value, "args")
	var used []string
	for _, m := range uses.Members {
		used = append(used, m.Name)
	}
	if uses.Whole {
		used = append(used, allArgs)
	}
	return used
}

// allArgs marks that the arguments are used as a whole.
const allArgs = "*"

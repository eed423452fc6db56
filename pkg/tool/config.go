package tool

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/model"
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
	Confirm     spec.Expr        `yaml:"confirm" doc:"Whether a call requires confirmation by a person (human-in-the-loop): true, or an expression over args, state, user, session, run_config, invocation and agent."`
	Async       AsyncConfig      `yaml:",inline"`
}

// declare builds the declaration. The error is a [spec.Diagnostics].
func (c *toolConfig) declare() (*Declared, error) {
	d, err := NewDeclared(c.Name.Value, c.Description, c.Params.JSON())
	if err != nil {
		return nil, spec.Diagnostics{c.Name.Errorf(0, "tool", "%s", err)}
	}
	d.params.dropsUndeclared = !c.Params.IsFull()
	if c.LongRunning {
		d.addPendingNote()
	}
	return d, nil
}

func (c *toolConfig) capabilities(timeout spec.Duration) Capabilities {
	all := Capabilities{
		LongRunning: c.LongRunning,
		Timeout:     time.Duration(timeout),
		FailOnError: c.OnError == "fail",
	}
	c.Async.SetCapabilities(&all)
	return all
}

// exprEnv declares the variables of the tool's expressions.
func (c *toolConfig) exprEnv(p *Params) template.Env {
	env := callEnv(p)
	if c.Async.WatchesMedia() {
		env["media"] = template.Env{"mime_type": "", "data": ""}
	}
	return env
}

// isCallName reports whether the root of a placeholder is a variable of calls, and no state key.
func (c *toolConfig) isCallName(root string) bool {
	return root == "media" && c.Async.WatchesMedia() || isCallName(root)
}

// A configCompiler compiles the templates and expressions of one tool, and
// collects their diagnostics.
type configCompiler struct {
	params      *Params
	diagnostics spec.Diagnostics
}

func (c *configCompiler) addDiagnostic(d spec.Diagnostic) { c.diagnostics = append(c.diagnostics, d) }

// addDiagnostics adds the diagnostics of an error.
func (c *configCompiler) addDiagnostics(err error) {
	if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
		c.diagnostics = append(c.diagnostics, ds...)
	}
}

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

// checkUnusedParams warns about parameters that a model has to fill in but that
// nothing uses. With confirm set they may serve the person who confirms.
func (c *toolConfig) checkUnusedParams(n *spec.Node, used []string) spec.Diagnostics {
	params := n.Get("params")
	if params == nil || c.Confirm.Pos != (spec.Pos{}) || slices.ContainsFunc(used, c.isUndeclared) {
		return nil
	}
	fields := params
	if schema := c.Params.JSON(); len(asMap(schema["properties"])) > 0 && params.Get("properties") != nil {
		fields = params.Get("properties")
	}
	var ds spec.Diagnostics
	for _, e := range fields.Entries {
		if _, ok := asMap(c.Params.JSON()["properties"])[e.Key.Value]; ok && !slices.Contains(used, e.Key.Value) {
			ds = append(ds, e.Key.Warnf("unused-param", "tool %s does not use its parameter %s", c.Name.Value, e.Key.Value).
				WithHint("use {args.%s} or args.%[1]s, or remove the parameter", e.Key.Value))
		}
	}
	return ds
}

// isUndeclared reports whether a used name is not a declared parameter: either
// all parameters are used, or the name itself is the problem.
func (c *toolConfig) isUndeclared(name string) bool {
	_, ok := asMap(c.Params.JSON()["properties"])[name]
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

// callEnv declares the variables of a tool's expressions.
func callEnv(p *Params) template.Env {
	return template.Env{
		"args":       p.sampleArgs(),
		"state":      map[string]any{},
		"user":       "",
		"session":    template.Env{"id": "", "user_id": "", "app": ""},
		"run_config": template.Env(model.SampleRunConfig()),
		"invocation": template.Env{"id": ""},
		"agent":      "",
	}
}

// callVars returns the values of the variables in callEnv.
func callVars(call *Call) map[string]any {
	vars := map[string]any{
		"args":       call.Args,
		"state":      call.State, // copied only if the expression reads it
		"user":       call.Origin.UserText,
		"session":    sessionVars(call),
		"run_config": call.Origin.ReadRunConfig(),
		"invocation": map[string]any{"id": call.Origin.InvocationID},
		"agent":      call.Origin.Agent,

		template.BudgetName: call.Expressions,
	}
	if call.Media != nil {
		vars["media"] = mediaVars(call.Media)
	}
	return vars
}

func sessionVars(call *Call) map[string]any {
	return map[string]any{"id": call.Origin.SessionID, "user_id": call.Origin.UserID, "app": call.Origin.App}
}

// valueLookup resolves dotted paths in a call: the names of callEnv, and
// otherwise state keys.
func valueLookup(call *Call) func(path string) (any, bool) {
	return func(path string) (any, bool) {
		root, rest, _ := strings.Cut(path, ".")
		switch root {
		case "args":
			return template.Dig(call.Args, rest)
		case "state":
			return lookupState(call, rest)
		case "user":
			return call.Origin.UserText, rest == ""
		case "session":
			return template.Dig(sessionVars(call), rest)
		case "run_config":
			return template.Dig(call.Origin.ReadRunConfig(), rest)
		case "invocation":
			return call.Origin.InvocationID, rest == "id"
		case "agent":
			return call.Origin.Agent, rest == ""
		case "media":
			if call.Media == nil { // a state key
				return lookupState(call, path)
			}
			return template.Dig(mediaVars(call.Media), rest)
		default:
			return lookupState(call, path)
		}
	}
}

func lookupState(call *Call, path string) (any, bool) {
	key, rest, _ := strings.Cut(path, ".")
	v, ok := call.State.Get(key)
	if !ok {
		return nil, false
	}
	return template.Dig(v, rest)
}

// sampleArgs returns a value of the right type for each parameter that every
// call has, and nil for the others. If undeclared parameters are accepted, any
// name is valid.
func (p *Params) sampleArgs() any {
	if p.acceptsUndeclared() {
		return map[string]any{}
	}
	props := asMap(p.schema["properties"])
	samples := make(template.Env, len(props))
	for name, prop := range props {
		samples[name] = nil
		if slices.Contains(p.required, name) || hasDefault(prop) {
			samples[name] = sampleValue(asMap(prop))
		}
	}
	return samples
}

func sampleValue(schema map[string]any) any {
	switch schema["type"] {
	case "string":
		return ""
	case "integer":
		return int64(0)
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		return map[string]any{}
	default:
		return nil
	}
}

// checkPlaceholders rejects placeholders for undeclared parameters.
func (p *Params) checkPlaceholders(refs []template.Ref) error {
	if p.acceptsUndeclared() {
		return nil
	}
	props := asMap(p.schema["properties"])
	for _, ref := range refs {
		root, rest, _ := strings.Cut(ref.Name, ".")
		name, _, _ := strings.Cut(rest, ".")
		if _, ok := props[name]; ok || root != "args" || rest == "" {
			continue
		}
		return &template.Error{
			Offset: ref.Offset,
			Msg:    fmt.Sprintf("{%s}: unknown parameter; declared: %s", ref.Name, joinNames(props)),
		}
	}
	return nil
}

func joinNames(m map[string]any) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

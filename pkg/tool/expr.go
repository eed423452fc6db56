package tool

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

type exprConfig struct {
	Tool    toolConfig    `yaml:",inline"`
	Value   spec.Expr     `yaml:"value" required:"true" doc:"The result: a map is returned unchanged, any other value as {result: …}."`
	Writes  StateWrites   `yaml:",inline"`
	Saves   ArtifactSaves `yaml:"save_artifact" doc:"Artifacts of the session to save, each with its expression. Names may contain {args.x} and {state.key}. A string has the media type of the name's extension, any other value is JSON; null saves nothing."`
	Timeout spec.Duration `yaml:"timeout" doc:"Maximum duration of a call."`
}

var (
	_ StateConfig  = (*exprConfig)(nil)
	_ spec.Checker = (*exprConfig)(nil)
)

func newExpr(_ context.Context, _ Env, c *exprConfig) (Set, error) {
	d, err := c.Tool.declare()
	if err != nil {
		return nil, err
	}
	t := &exprTool{Declared: d, capabilities: c.Tool.capabilities(c.Timeout)}
	read, env := configCompiler{params: d.params}, c.Tool.exprEnv(d.params)
	t.capabilities.Confirm = read.compileConfirm(c.Tool.Confirm, d.decl.Name)
	t.value = read.compileExpr(c.Value, env)
	t.writes = c.Writes.Assignments(func(e spec.Expr) *template.Expr { return read.compileExpr(e, env) })
	t.capabilities.WritesState = len(t.writes) > 0
	t.saves = read.compileSaves(c.Saves, env)
	if key := c.Writes.duplicateKey(); key != "" {
		read.addDiagnostic(c.Tool.Name.Errorf(0, "tool", "the state key %s appears more than once in %s", key, strings.Join(WriteVerbs(), ", ")))
	}
	return read.buildSet(t)
}

// Check warns about a timeout that sets no limit, and about unused parameters.
func (c *exprConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := append(CheckTimeout(n), c.Tool.Async.CheckAsync(n, c.Tool.LongRunning, false)...)
	used := exprArgs(c.Value)
	for _, e := range c.Writes.Exprs() {
		used = append(used, exprArgs(e)...)
	}
	for _, s := range c.Saves {
		used = append(used, exprArgs(s.Value)...)
		used = append(used, textArgs(s.Name)...)
	}
	if len(used) == 0 {
		return ds // callbacks may use the arguments instead
	}
	return append(ds, c.Tool.checkUnusedParams(n, used)...)
}

// StateUse returns the tool's expressions and the keys that it writes.
func (c *exprConfig) StateUse(n *spec.Node) StateUse {
	var u StateUse
	d, err := c.Tool.declare()
	if err != nil {
		return u // already reported
	}
	env := c.Tool.exprEnv(d.params)
	u.Exprs = append(u.Exprs, StateExpr{Expr: c.Value, Env: env})
	for _, e := range c.Writes.Exprs() {
		u.Exprs = append(u.Exprs, StateExpr{Expr: e, Env: env})
	}
	for _, s := range c.Saves {
		u.Exprs = append(u.Exprs, StateExpr{Expr: s.Value, Env: env})
		u.AddPaths(s.Name, c.Tool.isCallName)
	}
	u.AddWrites(n, StateWrite{})
	u.addConfirm(c.Tool.Confirm, env)
	return u
}

// An exprTool returns the value of an expression.
type exprTool struct {
	*Declared
	capabilities Capabilities
	value        *template.Expr
	writes       []Assignment
	saves        []ArtifactSave
}

// Capabilities returns the settings of the document.
func (t *exprTool) Capabilities() Capabilities { return t.capabilities }

// Run implements [Tool]. All expressions use the state from before the call; if
// one fails, nothing is written.
func (t *exprTool) Run(ctx context.Context, call *Call) (*Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return RunWithTimeout(ctx, t.decl.Name, t.capabilities.Timeout, func(ctx context.Context) (*Result, error) {
		return t.evaluate(ctx, call)
	})
}

func (t *exprTool) evaluate(ctx context.Context, call *Call) (*Result, error) {
	vars := callVars(call)
	value, err := t.value.Eval(ctx, vars)
	if err != nil {
		return nil, fmt.Errorf("%s: value: %w", t.decl.Name, err)
	}
	if err := t.writeResults(ctx, vars, call); err != nil {
		return nil, fmt.Errorf("%s: %w", t.decl.Name, err)
	}
	if value == nil && t.capabilities.LongRunning {
		return nil, nil
	}
	return NewResult(value), nil
}

// writeResults saves the artifacts and writes the state. All expressions are evaluated before.
func (t *exprTool) writeResults(ctx context.Context, vars map[string]any, call *Call) error {
	writes, err := evalAssignments(ctx, t.writes, vars)
	if err != nil {
		return err
	}
	artifacts, err := evalArtifacts(ctx, t.saves, vars, valueLookup(call))
	if err != nil {
		return err
	}
	if err := saveArtifacts(ctx, artifacts, call.Artifacts); err != nil {
		return err
	}
	return writes.applyTo(call.State)
}

// textArgs lists the arguments in the placeholders of a string.
func textArgs(t spec.Text) []string {
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

func exprArgs(e spec.Expr) []string {
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

// StateWrites is the YAML of the state keys that a tool or a callback writes.
type StateWrites struct {
	Set    map[string]spec.Expr `yaml:"set" doc:"State keys to write, each with its expression; null removes the key."`
	Add    map[string]spec.Expr `yaml:"add" doc:"State keys to add a number to, each with its expression. The database does the addition, so concurrent sessions lose no update."`
	Append map[string]spec.Expr `yaml:"append" doc:"State keys with lists to append one element to, each with its expression."`
	Max    map[string]spec.Expr `yaml:"max" doc:"State keys that become the greater of their value and the expression's, numbers or strings."`
	Min    map[string]spec.Expr `yaml:"min" doc:"State keys that become the smaller of their value and the expression's."`
}

// setVerb is the verb that overwrites.
const setVerb = "set"

// WriteVerbs lists the fields of [StateWrites].
func WriteVerbs() []string {
	verbs := []string{setVerb}
	for _, v := range session.UpdateVerbs() {
		verbs = append(verbs, string(v))
	}
	return verbs
}

// keysOf returns the keys of a verb.
func (c *StateWrites) keysOf(verb string) map[string]spec.Expr {
	switch session.UpdateVerb(verb) {
	case session.UpdateAdd:
		return c.Add
	case session.UpdateAppend:
		return c.Append
	case session.UpdateMax:
		return c.Max
	case session.UpdateMin:
		return c.Min
	default:
		return c.Set
	}
}

// duplicateKey returns a key that more than one verb writes, or "".
func (c *StateWrites) duplicateKey() string {
	seen := map[string]bool{}
	for w := range c.writtenKeys() {
		if seen[w.key] {
			return w.key
		}
		seen[w.key] = true
	}
	return ""
}

// Exprs returns all expressions, by verb and key.
func (c *StateWrites) Exprs() []spec.Expr {
	var all []spec.Expr
	for w := range c.writtenKeys() {
		all = append(all, w.expr)
	}
	return all
}

type writtenKey struct {
	verb, key string
	expr      spec.Expr
}

func (c *StateWrites) writtenKeys() iter.Seq[writtenKey] {
	return func(yield func(writtenKey) bool) {
		for _, verb := range WriteVerbs() {
			keys := c.keysOf(verb)
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				if !yield(writtenKey{verb, key, keys[key]}) {
					return
				}
			}
		}
	}
}

// An Assignment is one write to a key.
type Assignment struct {
	Key string
	// Verb is set, or one of [session.UpdateVerbs].
	Verb  string
	Value *template.Expr
}

// Assignments compiles the expressions.
func (c *StateWrites) Assignments(compile func(spec.Expr) *template.Expr) []Assignment {
	var list []Assignment
	for w := range c.writtenKeys() {
		list = append(list, Assignment{w.key, w.verb, compile(w.expr)})
	}
	return list
}

// Assign evaluates all expressions, and then writes the keys; if one fails,
// nothing is written.
func Assign(ctx context.Context, list []Assignment, vars map[string]any, state State) error {
	writes, err := evalAssignments(ctx, list, vars)
	if err != nil {
		return err
	}
	return writes.applyTo(state)
}

// evaluatedWrites are assignments with their values.
type evaluatedWrites struct {
	list   []Assignment
	values []any
}

func evalAssignments(ctx context.Context, list []Assignment, vars map[string]any) (evaluatedWrites, error) {
	w := evaluatedWrites{list: list, values: make([]any, len(list))}
	for i, a := range list {
		v, err := a.Value.Eval(ctx, vars)
		if err != nil {
			return w, fmt.Errorf("%s %s: %w", a.Verb, a.Key, err)
		}
		w.values[i] = v
	}
	return w, nil
}

// applyTo writes the values; if an update is invalid, it writes nothing.
func (w evaluatedWrites) applyTo(state State) error {
	var updates []session.StateUpdate
	for i, a := range w.list {
		if a.Verb != setVerb {
			updates = append(updates, session.StateUpdate{Key: a.Key, Verb: session.UpdateVerb(a.Verb), Value: w.values[i]})
		}
	}
	if err := state.Update(updates...); err != nil {
		return err
	}
	for i, a := range w.list {
		if a.Verb == setVerb {
			state.Set(a.Key, w.values[i])
		}
	}
	return nil
}

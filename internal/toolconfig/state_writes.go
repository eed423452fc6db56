package toolconfig

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// StateWrites is the YAML for the state keys that a tool or a callback writes.
type StateWrites struct {
	Set    map[string]spec.Expr `yaml:"set" doc:"State keys to write, each with its expression; null removes the key."`
	Add    map[string]spec.Expr `yaml:"add" doc:"State keys to add a number to, each with its expression. The database does the addition, so concurrent sessions lose no update."`
	Append map[string]spec.Expr `yaml:"append" doc:"State keys with lists to append one element to, each with its expression."`
	Max    map[string]spec.Expr `yaml:"max" doc:"State keys that become the maximum of their value and the expression's, numbers or strings."`
	Min    map[string]spec.Expr `yaml:"min" doc:"State keys that become the smaller of their value and the expression's."`
}

// keysOf returns a verb's keys.
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

// DuplicateKey returns a key that more than one verb writes, or "".
func (c *StateWrites) DuplicateKey() string {
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
	// Verb is set, or one from [session.UpdateVerbs].
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
func Assign(ctx context.Context, list []Assignment, vars map[string]any, state tool.State) error {
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
func (w evaluatedWrites) applyTo(state tool.State) error {
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

// AddWrites adds the keys that a mapping writes by the fields in [StateWrites]. Updates are not
// marked Sure, because another update may take effect instead.
func AddWrites(u *tool.StateUse, n *spec.Node, write tool.StateWrite) {
	for _, verb := range WriteVerbs() {
		one := write
		one.Verb, one.Sure = verb, write.Sure && verb == setVerb
		if keys := n.Get(verb); keys != nil {
			for _, e := range keys.Entries {
				one.Key, one.Value = e.Key.Text(), spec.Text{}
				if e.Value.Kind == spec.Scalar {
					one.Value = e.Value.Text()
				}
				u.Writes = append(u.Writes, one)
			}
		}
	}
}

// setVerb is the verb that overwrites.
const setVerb = "set"

// WriteVerbs lists the fields in [StateWrites].
func WriteVerbs() []string {
	verbs := []string{setVerb}
	for _, v := range session.UpdateVerbs() {
		verbs = append(verbs, string(v))
	}
	return verbs
}

// WriteResults saves artifacts and writes state keys for a call. All expressions are evaluated
// before.
func WriteResults(ctx context.Context, list []Assignment, saves []ArtifactSave, vars map[string]any, call *tool.Call) error {
	writes, err := evalAssignments(ctx, list, vars)
	if err != nil {
		return err
	}
	artifacts, err := evalArtifacts(ctx, saves, vars, ValueLookup(call))
	if err != nil {
		return err
	}
	if err := saveArtifacts(ctx, artifacts, call.Artifacts); err != nil {
		return err
	}
	return writes.applyTo(call.State)
}

package tool

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

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
	values := make([]any, len(list))
	var updates []session.StateUpdate
	for i, a := range list {
		v, err := a.Value.Eval(ctx, vars)
		if err != nil {
			return fmt.Errorf("%s %s: %w", a.Verb, a.Key, err)
		}
		values[i] = v
		if a.Verb != setVerb {
			updates = append(updates, session.StateUpdate{Key: a.Key, Verb: session.UpdateVerb(a.Verb), Value: v})
		}
	}
	if err := state.Update(updates...); err != nil {
		return err
	}
	for i, a := range list {
		if a.Verb == setVerb {
			state.Set(a.Key, values[i])
		}
	}
	return nil
}

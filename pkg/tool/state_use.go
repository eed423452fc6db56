package tool

import (
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A StateUse is what a piece of a document does with the state of a session:
// the texts and expressions that read it, and the keys that it writes.
type StateUse struct {
	Texts  []StateText
	Exprs  []StateExpr
	Writes []StateWrite
	// Opaque says that code takes part, which may read and write any key.
	Opaque bool
	// ReadsAny says that it is not known which keys are read.
	ReadsAny bool
	// Guarded says that a callback may answer before anything is filled.
	Guarded bool
}

// A StateText is a text with placeholders.
type StateText struct {
	Text spec.Text
	// Refs are the placeholders that are keys of the state.
	Refs []template.Ref
	// Begins says that the text is filled whenever its agent begins: a missing
	// value is certain to end the run.
	Begins bool
	// Paths says that the placeholders are dotted paths, such as {args.id}.
	Paths bool
}

// A StateExpr is an expression with the names that it may use.
type StateExpr struct {
	Expr spec.Expr
	Env  template.Env
	// Bool says that it must be true or false.
	Bool bool
	// Guard is the field that the expression decides about, such as confirm,
	// deny or when; empty where it only makes a value.
	Guard string
}

// A StateWrite is a key that is written.
type StateWrite struct {
	// Key is the key, in its place.
	Key spec.Text
	// Verb is the field that writes: output_key, or one of [StateWrites].
	Verb string
	// Text says that the value is a text, whatever it is about.
	Text bool
	// Sure says that it is written whenever the agent runs; First, that this is
	// before anything of the agent is filled.
	Sure, First bool
}

// Add puts the uses of another piece behind those of u.
func (u *StateUse) Add(more StateUse) {
	u.Texts = append(u.Texts, more.Texts...)
	u.Exprs = append(u.Exprs, more.Exprs...)
	u.Writes = append(u.Writes, more.Writes...)
	u.Opaque = u.Opaque || more.Opaque
	u.ReadsAny = u.ReadsAny || more.ReadsAny
	u.Guarded = u.Guarded || more.Guarded
}

// AddPaths adds a text whose placeholders are dotted paths. Named are the roots
// of paths that do not lead into the state.
func (u *StateUse) AddPaths(t spec.Text, named func(root string) bool) {
	paths, err := template.ParsePaths(t.Value)
	if err != nil {
		return // told where the text is compiled
	}
	var refs []template.Ref
	for _, ref := range paths.Refs() {
		root, rest, _ := strings.Cut(ref.Name, ".")
		if root == "state" {
			root, _, _ = strings.Cut(rest, ".")
		} else if named(root) {
			continue
		}
		ref.Name = root
		refs = append(refs, ref)
	}
	u.Texts = append(u.Texts, StateText{Text: t, Refs: refs, Paths: true})
}

// AddTexts adds the texts of a value, those of its lists and mappings too.
func (u *StateUse) AddTexts(n *spec.Node, named func(root string) bool) {
	switch {
	case n == nil:
	case n.Kind == spec.Scalar && n.Tag == "!!str":
		u.AddPaths(n.Text(), named)
	default:
		for _, e := range n.Entries {
			u.AddTexts(e.Value, named)
		}
		for _, item := range n.Items {
			u.AddTexts(item, named)
		}
	}
}

// AddWrites adds the keys that a mapping writes by the fields of [StateWrites].
// No update is sure to make a value that another one loses.
func (u *StateUse) AddWrites(n *spec.Node, write StateWrite) {
	for _, verb := range WriteVerbs() {
		one := write
		one.Verb, one.Sure = verb, write.Sure && verb == setVerb
		if keys := n.Get(verb); keys != nil {
			for _, e := range keys.Entries {
				one.Key = e.Key.Text()
				u.Writes = append(u.Writes, one)
			}
		}
	}
}

// addConfirm adds the condition of a confirmation, where there is one.
func (u *StateUse) addConfirm(e spec.Expr, env template.Env) {
	if e.Pos != (spec.Pos{}) {
		u.Exprs = append(u.Exprs, StateExpr{Expr: e, Env: env, Bool: true, Guard: "confirm"})
	}
}

// ConfirmUse is the use that a confirm of a document makes of the state; any
// arguments will do.
func ConfirmUse(e spec.Expr) StateUse {
	var u StateUse
	env := callEnv(&Params{})
	env["args"] = map[string]any{}
	u.addConfirm(e, env)
	return u
}

// isCallName says whether a root of a path is a name of a call, and not a key.
func isCallName(root string) bool {
	_, ok := callEnv(&Params{})[root]
	return ok
}

// StateUse has the tool's expressions, and what they write.
func (c *exprConfig) StateUse(n *spec.Node) StateUse {
	var u StateUse
	d, err := c.Tool.newDeclaredTool()
	if err != nil {
		return u // told already
	}
	env := callEnv(d.params)
	u.Exprs = append(u.Exprs, StateExpr{Expr: c.Value, Env: env})
	for _, e := range c.Writes.Exprs() {
		u.Exprs = append(u.Exprs, StateExpr{Expr: e, Env: env})
	}
	u.AddWrites(n, StateWrite{})
	u.addConfirm(c.Tool.Confirm, env)
	return u
}

// StateUse has the texts of the request.
func (c *httpConfig) StateUse(n *spec.Node) StateUse {
	var u StateUse
	u.AddPaths(c.URL, isCallName)
	for _, key := range []string{"query", "headers", "body"} {
		u.AddTexts(n.Get(key), isCallName)
	}
	if c.Tool.Confirm.Pos == (spec.Pos{}) {
		return u
	}
	if d, err := c.Tool.newDeclaredTool(); err == nil { // else it is told already
		u.addConfirm(c.Tool.Confirm, callEnv(d.params))
	}
	return u
}

// StateUse has the condition of the confirmation.
func (c *callToolArgs) StateUse(*spec.Node) StateUse { return ConfirmUse(c.Call.Confirm) }

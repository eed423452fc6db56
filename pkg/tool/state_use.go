package tool

import (
	"errors"
	"strings"

	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// A StateConfig configures a tool that uses the state. n is its mapping.
type StateConfig interface{ StateUse(n *spec.Node) StateUse }

// A ResultConfig configures a tool whose result may be computed by expressions that do not use the
// state.
type ResultConfig interface{ ResultExprs() []StateExpr }

// A StateUse describes how part of a document uses a session's state: the templates and expressions
// that read it, and the keys that it writes.
type StateUse struct {
	Texts  []StateText
	Exprs  []StateExpr
	Writes []StateWrite
	// Opaque means that code is involved, which may read and write any key.
	Opaque bool
	// ReadsAny means that the keys that are read are unknown.
	ReadsAny bool
	// Guarded means that a callback may respond before any template is rendered.
	Guarded bool
}

// A StateText is a template that reads the state.
type StateText struct {
	Text spec.Text
	// Refs are the placeholders that name state keys.
	Refs []template.Ref
	// Begins means that the text is rendered whenever its agent starts: a
	// missing value always ends the run.
	Begins bool
	// Paths means that the placeholders are dotted paths, such as {args.id}.
	Paths bool
}

// A StateExpr is an expression with its environment.
type StateExpr struct {
	Expr spec.Expr
	Env  template.Env
	// Bool means that it must be a boolean.
	Bool bool
	// Guard is the field whose condition the expression is, such as confirm,
	// deny or when; empty if it only computes a value.
	Guard string
}

// A StateWrite is a key that is written.
type StateWrite struct {
	// Key is the key with its position.
	Key spec.Text
	// Verb is the field that writes: output_key, or one of [toolconfig.StateWrites].
	Verb string
	// Value is the expression in [toolconfig.StateWrites]; empty for output_key.
	Value spec.Text
	// Text means that the value is always a string.
	Text bool
	// Sure means that the key is written whenever the agent runs; First, that this happens before
	// any of the agent's templates is rendered.
	Sure, First bool
}

// Add appends another part's uses.
func (u *StateUse) Add(more StateUse) {
	u.Texts = append(u.Texts, more.Texts...)
	u.Exprs = append(u.Exprs, more.Exprs...)
	u.Writes = append(u.Writes, more.Writes...)
	u.Opaque = u.Opaque || more.Opaque
	u.ReadsAny = u.ReadsAny || more.ReadsAny
	u.Guarded = u.Guarded || more.Guarded
}

// AddPaths adds a template whose placeholders are dotted paths. named reports whether a path's root
// is not a state key.
func (u *StateUse) AddPaths(t spec.Text, named func(root string) bool) {
	paths, err := template.ParsePaths(t.Value)
	if err != nil {
		return // reported when the text is compiled
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

// AddTexts adds a value's texts, including those in lists and maps.
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

// AddConfirm adds a confirmation's condition, if there is one.
func (u *StateUse) AddConfirm(e spec.Expr, env template.Env) {
	if e.Pos != (spec.Pos{}) {
		u.Exprs = append(u.Exprs, StateExpr{Expr: e, Env: env, Bool: true, Guard: "confirm"})
	}
}

// NewTemplateDiagnostic converts a template error to a diagnostic at its position in the text.
func NewTemplateDiagnostic(t spec.Text, rule string, err error) spec.Diagnostic {
	te := (*template.Error)(nil)
	if !errors.As(err, &te) {
		return t.Errorf(0, rule, "%s", err)
	}
	d := t.Errorf(te.Offset, rule, "%s", err)
	if te.Near != "" {
		d = d.WithProposal(te.Name, te.Near)
	}
	switch at, cut := t.FindCuttingComment(); {
	case cut && te.Offset >= len(t.Value)-1:
		d.Pos = at
		return d.WithHint("\" #\" begins a comment in YAML: put the expression in single quotes")
	case te.Hint != "":
		return d.WithHint("%s", te.Hint)
	}
	return d
}

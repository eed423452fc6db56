package template

import (
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// A turn reads the state before it evaluates an expression, and writes the new value when it stores
// its event. If the new value depends on the old one and sessions share the key, another session's
// write in between is lost: two turns with state["user:n"] + 1 may count once. FindDerivation
// finds such expressions for a warning. It follows the values that can become the result:
//
//	state.n + 1                     derived: the result differs from the value read
//	args.n ?? state.n               kept: the member itself, or a default for it
//	args.n > state.n ? args.n : 0   derived: a maximum depends on the old value
//	let n = state.n; n + 1          derived: n is an alias
//
// Invariants: an expression that keeps or replaces the member is never found, since the warning
// asks its author for another kind of update. An expression that reads the member in a way that is
// not visible, such as json(state), is not found either.

// FindDerivation returns the byte offset where an expression first uses a member to compute a new
// value: state.n + 1, but not the member itself, which a value such as args.name ?? state.name
// keeps. Conditions count if they compare the member by its order, as a maximum does. Ok is false
// if there is none, or the expression cannot be parsed.
func FindDerivation(src, name, member string) (offset int, ok bool) {
	tree, err := parser.Parse(src)
	if err != nil {
		return 0, false
	}
	f := &derivationFinder{name: name, member: member}
	f.findInValue(tree.Node)
	if len(f.found) == 0 {
		return 0, false
	}
	return byteOffset(src, slices.Min(f.found)), true
}

// A derivationFinder collects the positions where uses compute a value.
type derivationFinder struct {
	name, member string
	// aliases are the variables that have the member's value.
	aliases []string
	found   []int
}

// findInValue inspects an expression whose result is the whole expression's result.
func (f *derivationFinder) findInValue(node ast.Node) {
	switch n := node.(type) {
	case *ast.ConditionalNode:
		f.findInCondition(n.Cond)
		f.findInValue(n.Exp1)
		f.findInValue(n.Exp2)
		return
	case *ast.ChainNode:
		f.findInValue(n.Node)
		return
	case *ast.VariableDeclaratorNode:
		if f.keepsMember(n.Value) {
			f.aliases = append(f.aliases, n.Name)
		} else {
			f.findInValue(n.Value)
		}
		f.findInValue(n.Expr)
		return
	case *ast.BinaryNode:
		if n.Operator == "??" {
			f.findInValue(n.Left)
			f.findInValue(n.Right)
			return
		}
	}
	if _, ok := f.memberPosition(node); !ok {
		f.found = append(f.found, f.listUses(node)...)
	}
}

// findInCondition inspects a condition's comparisons.
func (f *derivationFinder) findInCondition(node ast.Node) {
	ast.Walk(&node, visitFunc(func(node *ast.Node) {
		if n, ok := (*node).(*ast.BinaryNode); ok && slices.Contains([]string{"<", ">", "<=", ">="}, n.Operator) {
			f.found = append(f.found, f.listUses(n)...)
		}
	}))
}

// keepsMember reports whether an expression is the member, or a default for it.
func (f *derivationFinder) keepsMember(node ast.Node) bool {
	inner := &derivationFinder{name: f.name, member: f.member, aliases: f.aliases}
	inner.findInValue(node)
	return len(inner.found) == 0 && len(f.listUses(node)) > 0
}

// listUses returns the positions of all uses in an expression.
func (f *derivationFinder) listUses(node ast.Node) (all []int) {
	ast.Walk(&node, visitFunc(func(node *ast.Node) {
		if at, ok := f.memberPosition(*node); ok {
			all = append(all, at)
		}
	}))
	return all
}

// memberPosition returns the position of a node that is the member, or a variable with its
// value.
func (f *derivationFinder) memberPosition(node ast.Node) (int, bool) {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		return n.Location().From, slices.Contains(f.aliases, n.Value)
	case *ast.MemberNode:
		owner, isName := n.Node.(*ast.IdentifierNode)
		key, isKey := n.Property.(*ast.StringNode)
		if isName && isKey && owner.Value == f.name && key.Value == f.member {
			return key.Location().From, true
		}
	}
	return 0, false
}

// visitFunc is a function that visits nodes.
type visitFunc func(node *ast.Node)

// Visit implements [ast.Visitor].
func (f visitFunc) Visit(node *ast.Node) { f(node) }

package template

import (
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// An Equality is a comparison of a member with a value that stands in the
// expression, such as state.tier == "gold".
type Equality struct {
	Of, Member string
	Value      any
}

// Equalities lists the comparisons of an expression of which one is enough to
// make it true: a == 1, a in [1, 2], and any of those with or between them. It
// is false for every other expression.
func Equalities(src string) ([]Equality, bool) {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil, false
	}
	return equalities(tree.Node)
}

func equalities(node ast.Node) ([]Equality, bool) {
	n, ok := node.(*ast.BinaryNode)
	if !ok {
		return nil, false
	}
	switch n.Operator {
	case "or", "||":
		left, okLeft := equalities(n.Left)
		right, okRight := equalities(n.Right)
		return append(left, right...), okLeft && okRight
	case "==":
		if v, ok := literal(n.Right); ok {
			return equality(n.Left, v)
		}
		v, ok := literal(n.Left)
		if !ok {
			return nil, false
		}
		return equality(n.Right, v)
	case "in":
		return oneOf(n)
	}
	return nil, false
}

func oneOf(n *ast.BinaryNode) ([]Equality, bool) {
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		return nil, false
	}
	var all []Equality
	for _, item := range list.Nodes {
		v, ok := literal(item)
		if !ok {
			return nil, false
		}
		one, ok := equality(n.Left, v)
		if !ok {
			return nil, false
		}
		all = append(all, one...)
	}
	return all, true
}

func equality(node ast.Node, v any) ([]Equality, bool) {
	if chain, ok := node.(*ast.ChainNode); ok {
		node = chain.Node
	}
	m, ok := node.(*ast.MemberNode)
	if !ok {
		return nil, false
	}
	of, okOf := m.Node.(*ast.IdentifierNode)
	name, okName := m.Property.(*ast.StringNode)
	if !okOf || !okName {
		return nil, false
	}
	return []Equality{{of.Value, name.Value, v}}, true
}

func literal(node ast.Node) (any, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode:
		return n.Value, true
	case *ast.FloatNode:
		return n.Value, true
	case *ast.BoolNode:
		return n.Value, true
	}
	return nil, false
}

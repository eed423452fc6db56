package template

import (
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// An Equality is a comparison of a member with a literal, such as
// state.tier == "gold".
type Equality struct {
	Of, Member string
	Value      any
}

// Equalities lists the comparisons of an expression that is true if and only if
// one of them is: a == 1, a in [1, 2], and several of those joined by or. The
// second result is false for any other expression.
func Equalities(src string) ([]Equality, bool) {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil, false
	}
	return collectEqualities(tree.Node)
}

func collectEqualities(node ast.Node) ([]Equality, bool) {
	n, ok := node.(*ast.BinaryNode)
	if !ok {
		return nil, false
	}
	switch n.Operator {
	case "or", "||":
		left, okLeft := collectEqualities(n.Left)
		right, okRight := collectEqualities(n.Right)
		return append(left, right...), okLeft && okRight
	case "==":
		if v, ok := literalValue(n.Right); ok {
			return memberEquality(n.Left, v)
		}
		v, ok := literalValue(n.Left)
		if !ok {
			return nil, false
		}
		return memberEquality(n.Right, v)
	case "in":
		return membershipEqualities(n)
	}
	return nil, false
}

func membershipEqualities(n *ast.BinaryNode) ([]Equality, bool) {
	list, ok := n.Right.(*ast.ArrayNode)
	if !ok {
		return nil, false
	}
	var all []Equality
	for _, item := range list.Nodes {
		v, ok := literalValue(item)
		if !ok {
			return nil, false
		}
		one, ok := memberEquality(n.Left, v)
		if !ok {
			return nil, false
		}
		all = append(all, one...)
	}
	return all, true
}

func memberEquality(node ast.Node, v any) ([]Equality, bool) {
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

func literalValue(node ast.Node) (any, bool) {
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

package template

import (
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// Parts lists those parts of an expression whose values tell how its own came
// about, in order: names with their members, and calls of functions. For a
// condition over a list, such as none(events, .author == "x"), they are the
// values that it looks at, map(events, .author). Each part is an expression of
// its own. An expression that cannot be parsed has none.
func Parts(src string) []string {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil
	}
	f := &partFinder{whole: tree.Node}
	f.visit(tree.Node)
	return f.parts
}

// A partFinder goes through an expression from left to right.
type partFinder struct {
	whole ast.Node
	parts []string
}

func (f *partFinder) add(part string) {
	if !slices.Contains(f.parts, part) {
		f.parts = append(f.parts, part)
	}
}

func (f *partFinder) show(n ast.Node) {
	if n != f.whole {
		f.add(n.String())
	}
}

func (f *partFinder) visit(node ast.Node) {
	switch n := node.(type) {
	case *ast.IdentifierNode, *ast.MemberNode, *ast.ChainNode, *ast.SliceNode:
		f.add(n.String())
	case *ast.UnaryNode:
		f.visit(n.Node)
	case *ast.BinaryNode:
		f.all(n.Left, n.Right)
	case *ast.ConditionalNode:
		f.all(n.Cond, n.Exp1, n.Exp2)
	case *ast.CallNode:
		f.show(n)
		f.all(n.Arguments...)
	case *ast.BuiltinNode:
		f.show(n)
		f.builtin(n)
	case *ast.ArrayNode:
		f.all(n.Nodes...)
	}
}

func (f *partFinder) all(nodes ...ast.Node) {
	for _, n := range nodes {
		f.visit(n)
	}
}

// builtin shows what a condition looks at in each element; of a call without
// a condition, what it is given.
func (f *partFinder) builtin(n *ast.BuiltinNode) {
	if len(n.Arguments) < 2 {
		f.all(n.Arguments...)
		return
	}
	body, ok := n.Arguments[1].(*ast.PredicateNode)
	if !ok {
		f.all(n.Arguments...)
		return
	}
	m := &memberFinder{}
	ast.Walk(&body.Node, m)
	if len(m.members) == 0 {
		f.visit(n.Arguments[0])
	}
	for _, member := range m.members {
		f.add("map(" + n.Arguments[0].String() + ", " + member.String() + ")")
	}
}

// A memberFinder gathers the members of the element at hand that are read, each
// as far as it goes.
type memberFinder struct{ members []ast.Node }

// Visit looks at one node; what a longer path begins with comes before it.
func (m *memberFinder) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.MemberNode)
	if !ok {
		return
	}
	if _, element := n.Node.(*ast.PointerNode); element {
		m.members = append(m.members, n)
		return
	}
	if i := slices.Index(m.members, n.Node); i >= 0 {
		m.members[i] = n
	}
}

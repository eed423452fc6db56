package template

import (
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// Parts lists the parts of an expression whose values explain its result, in
// order: names with their members, and function calls. For a condition over a
// list, such as none(events, .author == "x"), the part is the values that the
// condition reads, map(events, .author). Each part is an expression by itself.
// The result is empty if the expression cannot be parsed.
func Parts(src string) []string {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil
	}
	f := &partFinder{whole: tree.Node}
	f.visitNode(tree.Node)
	return f.parts
}

// A partFinder collects the parts of an expression from left to right.
type partFinder struct {
	whole ast.Node
	parts []string
}

func (f *partFinder) addPart(part string) {
	if !slices.Contains(f.parts, part) {
		f.parts = append(f.parts, part)
	}
}

func (f *partFinder) addUnlessWhole(n ast.Node) {
	if n != f.whole {
		f.addPart(n.String())
	}
}

func (f *partFinder) visitNode(node ast.Node) {
	switch n := node.(type) {
	case *ast.IdentifierNode, *ast.MemberNode, *ast.ChainNode, *ast.SliceNode:
		f.addPart(n.String())
	case *ast.UnaryNode:
		f.visitNode(n.Node)
	case *ast.BinaryNode:
		f.visitAll(n.Left, n.Right)
	case *ast.ConditionalNode:
		f.visitAll(n.Cond, n.Exp1, n.Exp2)
	case *ast.CallNode:
		f.addUnlessWhole(n)
		f.visitAll(n.Arguments...)
	case *ast.BuiltinNode:
		f.addUnlessWhole(n)
		f.addElementParts(n)
	case *ast.ArrayNode:
		f.visitAll(n.Nodes...)
	}
}

func (f *partFinder) visitAll(nodes ...ast.Node) {
	for _, n := range nodes {
		f.visitNode(n)
	}
}

// addElementParts adds what a condition reads of each element, or the arguments
// of a call without a condition.
func (f *partFinder) addElementParts(n *ast.BuiltinNode) {
	if len(n.Arguments) < 2 {
		f.visitAll(n.Arguments...)
		return
	}
	body, ok := n.Arguments[1].(*ast.PredicateNode)
	if !ok {
		f.visitAll(n.Arguments...)
		return
	}
	m := &memberFinder{}
	ast.Walk(&body.Node, m)
	if len(m.members) == 0 {
		f.visitNode(n.Arguments[0])
	}
	for _, member := range m.members {
		f.addPart("map(" + n.Arguments[0].String() + ", " + member.String() + ")")
	}
}

// A memberFinder collects the members of the current element that are read, each
// with its longest path.
type memberFinder struct{ members []ast.Node }

// Visit inspects one node; the start of a path is visited before the whole path.
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

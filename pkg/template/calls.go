package template

import (
	"cmp"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// A Call is a use of a function in an expression.
type Call struct {
	// Text is the argument if Literal is true, which means that the only
	// argument is a string literal.
	Text    string
	Literal bool
	Offset  int // byte offset in the source
}

// Calls lists the uses of a function in an expression, in source order. The
// result is empty if the expression cannot be parsed.
func Calls(src, function string) []Call {
	tree, err := parser.Parse(src)
	if err != nil {
		return nil
	}
	f := &callFinder{function: function, literals: map[ast.Node]string{}}
	ast.Walk(&tree.Node, f)
	calls := make([]Call, len(f.references))
	for i, n := range f.references {
		text, ok := f.literals[n]
		calls[i] = Call{Text: text, Literal: ok, Offset: byteOffset(src, n.Location().From)}
	}
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Compare(a.Offset, b.Offset) })
	return calls
}

// A callFinder collects the references to a function and the string literals
// passed to it.
type callFinder struct {
	function   string
	references []ast.Node
	literals   map[ast.Node]string
}

// Visit inspects one node; the identifiers in a call are visited before the call.
func (f *callFinder) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == f.function {
			f.references = append(f.references, n)
		}
	case *ast.CallNode:
		if len(n.Arguments) != 1 || !slices.Contains(f.references, n.Callee) {
			return
		}
		if text, ok := n.Arguments[0].(*ast.StringNode); ok {
			f.literals[n.Callee] = text.Value
		}
	}
}

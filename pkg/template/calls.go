package template

import (
	"cmp"
	"slices"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// A Call is a use of a function in an expression.
type Call struct {
	// Text is what the function is given, when Literal says that it stands in
	// the expression as a text.
	Text    string
	Literal bool
	Offset  int // byte offset in the source
}

// Calls lists the uses of a function in an expression, in order. An expression
// that cannot be parsed has none.
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

// A callFinder gathers where a function is named, and the literal texts that it
// is called with there.
type callFinder struct {
	function   string
	references []ast.Node
	literals   map[ast.Node]string
}

// Visit looks at one node; the names inside a call come before the call.
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

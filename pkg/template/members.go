package template

import (
	"cmp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// A Member is a use of a member in an expression, such as state.tier or
// "tier" in state.
type Member struct {
	Name   string
	Offset int // byte offset of the name in the source
	// Optional says that the expression asks whether the member is there: it
	// stands before ??, beside nil, or before in.
	Optional bool
}

// A Comparison is a member beside a value that stands in the expression:
// state.tier == "gold", state.tier != "gold", state.tier in ["gold"].
type Comparison struct {
	Member string
	Value  any
	Offset int // byte offset of the value in the source
}

// Uses is what an expression does with a name that has members.
type Uses struct {
	// Members are in the order of the source.
	Members []Member
	// Whole says that the name also stands there by itself, as in json(state),
	// so that any member may be used.
	Whole bool
	// Comparisons are in the order of the source.
	Comparisons []Comparison
}

// UsesOf lists how an expression uses a name. An expression that cannot be
// parsed uses nothing.
func UsesOf(src, name string) Uses {
	if !strings.Contains(src, name) {
		return Uses{}
	}
	tree, err := parser.Parse(src)
	if err != nil {
		return Uses{}
	}
	f := &useFinder{src: src, name: name, bare: map[ast.Node]bool{}}
	ast.Walk(&tree.Node, f)
	slices.SortFunc(f.uses.Members, func(a, b Member) int { return cmp.Compare(a.Offset, b.Offset) })
	slices.SortFunc(f.uses.Comparisons, func(a, b Comparison) int { return cmp.Compare(a.Offset, b.Offset) })
	f.uses.Whole = len(f.bare) > 0
	return f.uses
}

// A useFinder gathers the uses of a name; bare are those that are no part of a
// member.
type useFinder struct {
	src, name string
	bare      map[ast.Node]bool
	uses      Uses
}

// Visit looks at one node; its children were looked at before.
func (f *useFinder) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == f.name {
			f.bare[n] = true
		}
	case *ast.MemberNode:
		if key, ok := n.Property.(*ast.StringNode); ok && f.bare[n.Node] {
			f.addMember(n.Node, key)
		}
	case *ast.BinaryNode:
		f.findInBinary(n)
	}
}

func (f *useFinder) addMember(owner ast.Node, key *ast.StringNode) {
	delete(f.bare, owner)
	f.uses.Members = append(f.uses.Members, Member{Name: key.Value, Offset: byteOffset(f.src, key.Location().From)})
}

func (f *useFinder) findInBinary(n *ast.BinaryNode) {
	switch n.Operator {
	case "??":
		f.markOptional(n.Left)
	case "==", "!=":
		if _, ok := n.Right.(*ast.NilNode); ok {
			f.markOptional(n.Left)
		}
		if _, ok := n.Left.(*ast.NilNode); ok {
			f.markOptional(n.Right)
		}
		f.addComparison(n.Left, n.Right)
		f.addComparison(n.Right, n.Left)
	case "in":
		if key, ok := n.Left.(*ast.StringNode); ok && f.bare[n.Right] {
			f.addMember(n.Right, key)
			f.uses.Members[len(f.uses.Members)-1].Optional = true
			return
		}
		if list, ok := n.Right.(*ast.ArrayNode); ok {
			for _, item := range list.Nodes {
				f.addComparison(n.Left, item)
			}
		}
	}
}

// markOptional marks the member that a path begins with.
func (f *useFinder) markOptional(node ast.Node) {
	for {
		switch n := node.(type) {
		case *ast.ChainNode:
			node = n.Node
			continue
		case *ast.MemberNode:
			if of, ok := n.Node.(*ast.IdentifierNode); !ok || of.Value != f.name {
				node = n.Node
				continue
			}
			at := byteOffset(f.src, n.Property.Location().From)
			for i := range f.uses.Members {
				f.uses.Members[i].Optional = f.uses.Members[i].Optional || f.uses.Members[i].Offset == at
			}
		}
		return
	}
}

// addComparison keeps a comparison of a member with a value that stands there.
func (f *useFinder) addComparison(side, other ast.Node) {
	v, ok := literalValue(other)
	if !ok {
		return
	}
	same, ok := memberEquality(side, v)
	if !ok || same[0].Of != f.name {
		return
	}
	f.uses.Comparisons = append(f.uses.Comparisons, Comparison{same[0].Member, v, byteOffset(f.src, other.Location().From)})
}

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
	// Optional reports whether the expression handles a missing member: by ??,
	// by a comparison with nil, or by in.
	Optional bool
}

// A Comparison is a comparison of a member with a literal: state.tier == "gold",
// state.tier != "gold", state.tier in ["gold"].
type Comparison struct {
	Member string
	Value  any
	Offset int // byte offset of the value in the source
}

// Uses describes how an expression uses a name that has members.
type Uses struct {
	// Members are in source order.
	Members []Member
	// Whole reports whether the name is also used by itself, as in json(state),
	// so that any member may be used.
	Whole bool
	// Comparisons are in source order.
	Comparisons []Comparison
}

// UsesOf returns the uses of a name in an expression. The result is empty if the
// expression cannot be parsed.
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

// A useFinder collects the uses of a name; bare holds the references that are not
// part of a member access.
type useFinder struct {
	src, name string
	bare      map[ast.Node]bool
	uses      Uses
}

// Visit inspects one node after its children.
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

// markOptional marks the first member of a path as optional.
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

// addComparison records a comparison of a member with a literal.
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

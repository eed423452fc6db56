package template

import (
	"cmp"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
)

// A Member is one use of a member in an expression, such as state.tier or "tier" in state.
type Member struct {
	Name   string
	Offset int // byte offset of the name in the source
	// Optional reports whether the expression handles a missing member: by ??,
	// by a comparison with nil, or by in.
	Optional bool
}

// A Comparison compares a member with a literal: state.tier == "gold", state.tier != "gold",
// state.tier in ["gold"].
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

// UsesOf returns how an expression uses a name. The result is empty if the expression cannot be
// parsed.
func UsesOf(src, name string) Uses {
	if !strings.Contains(src, name) {
		return Uses{}
	}
	tree, err := parseSource(src)
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

// A useFinder collects a name's uses; bare holds the references that are not part of a member
// access.
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

// markOptional marks a path's first member as optional.
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

// addComparison records a comparison between a member and a literal.
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

// A MemberLiteral is a string that an expression compares with a member of any value, such as
// calls[0].name == "find" and .author in ["desk"].
type MemberLiteral struct {
	// Owner is the last name before the member, such as args in calls[0].args.id; it may be empty.
	Owner, Member, Value string
	Offset               int // byte offset of the literal, with its quote, in the source
}

// MemberLiterals lists the strings that an expression compares with members, in source order. The
// result is empty if the expression cannot be parsed.
func MemberLiterals(src string) []MemberLiteral {
	tree, err := parseSource(src)
	if err != nil {
		return nil
	}
	f := &literalFinder{src: src}
	ast.Walk(&tree.Node, f)
	slices.SortFunc(f.found, func(a, b MemberLiteral) int { return cmp.Compare(a.Offset, b.Offset) })
	return f.found
}

// A literalFinder collects the strings that are compared with members.
type literalFinder struct {
	src   string
	found []MemberLiteral
}

// Visit inspects one node after its children.
func (f *literalFinder) Visit(node *ast.Node) {
	n, ok := (*node).(*ast.BinaryNode)
	if !ok || n.Operator != "==" && n.Operator != "!=" && n.Operator != "in" {
		return
	}
	for _, sides := range [][2]ast.Node{{n.Left, n.Right}, {n.Right, n.Left}} {
		member, values := sides[0], []ast.Node{sides[1]}
		if list, ok := sides[1].(*ast.ArrayNode); ok {
			values = list.Nodes
		}
		switch call := member.(type) {
		case *ast.ChainNode:
			member = call.Node
		case *ast.BuiltinNode: // map(calls, .name) == ["find"]
			if body, ok := lastArgument(call).(*ast.PredicateNode); ok && call.Name == "map" {
				member = body.Node
			}
		}
		m, ok := member.(*ast.MemberNode)
		if !ok {
			continue
		}
		name, ok := m.Property.(*ast.StringNode)
		owner := ""
		if of, isMember := m.Node.(*ast.MemberNode); isMember {
			if last, isText := of.Property.(*ast.StringNode); isText {
				owner = last.Value
			}
		} else if of, isName := m.Node.(*ast.IdentifierNode); isName {
			owner = of.Value
		}
		for _, v := range values {
			if literal, isText := v.(*ast.StringNode); ok && isText {
				f.found = append(f.found, MemberLiteral{owner, name.Value, literal.Value, byteOffset(f.src, literal.Location().From)})
			}
		}
	}
}

func lastArgument(call *ast.BuiltinNode) ast.Node {
	if len(call.Arguments) == 0 {
		return nil
	}
	return call.Arguments[len(call.Arguments)-1]
}

// A Call is a function's use in an expression.
type Call struct {
	// Text is the argument if Literal is true, which means that the only
	// argument is a string literal.
	Text    string
	Literal bool
	Offset  int // byte offset in the source
}

// Calls lists a function's uses in an expression, in source order. The result is empty if the
// expression cannot be parsed.
func Calls(src, function string) []Call {
	tree, err := parseSource(src)
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

// An Equality compares a member with a literal, such as state.tier == "gold".
type Equality struct {
	Of, Member string
	Value      any
}

// Equalities lists an expression's comparisons if it is true exactly when one of them is: a == 1, a
// in [1, 2], and several such joined by or. The second result is false for any other expression.
func Equalities(src string) ([]Equality, bool) {
	tree, err := parseSource(src)
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

// Parts lists the parts of an expression whose values explain its result, in
// order: names with their members, and function calls. For a condition over a
// list, such as none(events, .author == "x"), the part is the values that the
// condition reads, map(events, .author). Each part is an expression by itself.
// The result is empty if the expression cannot be parsed.
func Parts(src string) []string {
	tree, err := parseSource(src)
	if err != nil {
		return nil
	}
	f := &partFinder{whole: tree.Node}
	f.visitNode(tree.Node)
	return f.parts
}

// A partFinder collects an expression's parts from left to right.
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

// addElementParts adds what a condition reads from each element, or a call's arguments if it has no
// condition.
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

// A memberFinder collects the members that are read from the current element, each with its longest
// path.
type memberFinder struct{ members []ast.Node }

// Visit inspects one node; a path's start is visited before the whole path.
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

package template

import (
	"reflect"
	"slices"

	"github.com/expr-lang/expr/ast"
)

// A guard rewrites a parsed expression so that its evaluation stays within the limits, whatever the
// values are. It visits each node after its children:
//
//   - every loop iteration spends a step;
//   - operations that build strings, traverse values or match patterns charge
//     the meter;
//   - a missing member is nil, and so is any member of nil;
//   - nil counts as false where a boolean is required;
//   - only functions and methods of times can be called.
//
// For example, map(list, # + 1) becomes
//
//	map(iterateElements(meter, list), countIteration() ? exactPlus(#, 1) : abort(meter))
//
// The names of the added functions contain a space, so no expression can call or replace them. A
// node that the guard adds keeps the type that the library relies on, or has none: the library
// would compile a wrong type to an instruction that fails.
type guard struct {
	env       Env
	large     literals // numbers by their names in the source
	metered   map[string]meteredFunc
	operators map[string]any // the numberOperators that the program uses
	names     []string
	uncalled  []*ast.IdentifierNode // functions that are referenced but not called
	err       *Error
}

// Visit rewrites one node after its children.
func (g *guard) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if v, ok := g.large[n.Value]; ok {
			ast.Patch(node, &ast.ConstantNode{Value: v})
			return
		}
		g.checkIdentifier(n)
	case *ast.MemberNode:
		g.setOptional(node, n)
	case *ast.CallNode:
		g.guardCall(n)
	case *ast.BuiltinNode:
		g.guardLoop(node, n)
	case *ast.BinaryNode:
		g.guardBinary(node, n)
	case *ast.UnaryNode:
		if n.Operator == "not" || n.Operator == "!" {
			g.coerceToBool(&n.Node)
		}
		if n.Operator == "-" && !isNumber(n.Node) {
			g.patchOperator(node, negateName, n.Node, &ast.NilNode{})
		}
	case *ast.ConditionalNode:
		g.coerceToBool(&n.Cond)
	}
}

func (g *guard) reject(n ast.Node, msg string) {
	if g.err == nil {
		g.err = &Error{Offset: n.Location().From, Msg: msg}
	}
}

func (g *guard) checkIdentifier(n *ast.IdentifierNode) {
	_, declared := g.env[n.Value]
	switch {
	case n.Value == "$env":
		g.reject(n, "$env is not available; refer to the names directly")
	case declared && !slices.Contains(g.names, n.Value):
		g.names = append(g.names, n.Value)
	case !declared && slices.Contains(functionNames(), n.Value):
		g.uncalled = append(g.uncalled, n)
	}
}

// firstError returns the first reason to reject the expression.
func (g *guard) firstError(src string) error {
	if g.err == nil && len(g.uncalled) > 0 {
		name := g.uncalled[0].Value
		g.reject(g.uncalled[0], name+" is a function; call it as "+name+"(…)")
	}
	if g.err == nil {
		return nil
	}
	g.err.Offset = byteOffset(src, g.err.Offset)
	return g.err
}

// setOptional makes every member access in a.b.c optional, in one chain.
func (g *guard) setOptional(node *ast.Node, n *ast.MemberNode) {
	if chain, ok := n.Node.(*ast.ChainNode); ok {
		n.Node = chain.Node
	}
	n.Optional = true
	ast.Patch(node, &ast.ChainNode{Node: n})
}

func (g *guard) guardCall(n *ast.CallNode) {
	switch callee := n.Callee.(type) {
	case *ast.IdentifierNode:
		if _, ok := g.metered[callee.Value]; ok {
			n.Arguments = append([]ast.Node{&ast.IdentifierNode{Value: meterName}}, n.Arguments...)
			g.uncalled = slices.DeleteFunc(g.uncalled, func(b *ast.IdentifierNode) bool { return b == callee })
			return
		}
		if t := reflect.TypeOf(g.env[callee.Value]); t != nil && t.Kind() == reflect.Func {
			return
		}
	case *ast.ChainNode:
		method, ok := callee.Node.(*ast.MemberNode)
		if ok && isTime(method.Node.Type()) {
			method.Optional = false
			n.Callee = method
			return
		}
	}
	g.reject(n, "only functions can be called")
}

// guardLoop guards a loop; all other expensive functions are replaced by metered ones with the same
// name.
func (g *guard) guardLoop(node *ast.Node, n *ast.BuiltinNode) {
	if !isLoop(n.Name) {
		return
	}
	wrapInCall(&n.Arguments[0], iterateName)
	switch n.Name {
	case "sum":
		g.sumByReduce(n)
	case "sortBy":
		sortByMap(node, n)
	}
	if len(n.Arguments) == 1 {
		return
	}
	body, ok := n.Arguments[1].(*ast.PredicateNode)
	if !ok {
		return
	}
	if isPredicateLoop(n.Name) {
		g.coerceToBool(&body.Node)
	}
	addIterationCheck(&body.Node)
}

// sumByReduce makes sum(list, body) reduce(list, #acc + body, 0), so that the sum is
// exact.
func (g *guard) sumByReduce(n *ast.BuiltinNode) {
	var element ast.Node = &ast.PointerNode{}
	element.SetLocation(n.Location())
	if len(n.Arguments) == 2 {
		element = n.Arguments[1].(*ast.PredicateNode).Node
	}
	sum := g.newOperatorCall("the +", element, &ast.PointerNode{Name: "acc"})
	sum.SetLocation(n.Location())
	n.Name = "reduce"
	n.Arguments = []ast.Node{n.Arguments[0], &ast.PredicateNode{Node: sum}, &ast.IntegerNode{}}
}

// sortByMap makes sortBy(list, key, order) sortPairs(map(list, [key, #]), order), because the
// library does not order numbers exactly.
func sortByMap(node *ast.Node, n *ast.BuiltinNode) {
	var order ast.Node = &ast.StringNode{Value: "asc"}
	if len(n.Arguments) == 3 {
		order = n.Arguments[2]
	}
	key := n.Arguments[1].(*ast.PredicateNode)
	pair := &ast.ArrayNode{Nodes: []ast.Node{key.Node, &ast.PointerNode{}}}
	pair.SetLocation(key.Location())
	n.Name = "map"
	n.Arguments = []ast.Node{n.Arguments[0], &ast.PredicateNode{Node: pair}}
	ast.Patch(node, newCall(sortName, n, order))
}

// addIterationCheck makes a loop's body spend a step first:
// countIteration() ? body : abort(). The check has no arguments and returns a
// bool, because the virtual machine calls such functions without allocating.
func addIterationCheck(body *ast.Node) {
	stop := newCall(abortName)
	stop.SetType((*body).Type())
	count := &ast.IdentifierNode{Value: countName}
	count.SetType(reflect.TypeFor[func() bool]()) // a typed call's arguments are not checked again
	ast.Patch(body, &ast.ConditionalNode{
		Cond: &ast.CallNode{Callee: count},
		Exp1: *body,
		Exp2: stop,
	})
}

func isLoop(name string) bool {
	return isPredicateLoop(name) || slices.Contains([]string{"map", "sum", "groupBy", "sortBy", "reduce"}, name)
}

// isPredicateLoop reports whether the loop's body is a condition.
func isPredicateLoop(name string) bool {
	return slices.Contains([]string{
		"all", "none", "any", "one", "filter", "count",
		"find", "findIndex", "findLast", "findLastIndex",
	}, name)
}

func (g *guard) guardBinary(node *ast.Node, n *ast.BinaryNode) {
	switch n.Operator {
	case "and", "&&", "or", "||":
		g.coerceToBool(&n.Left)
		g.coerceToBool(&n.Right)
	case "+":
		if isNumber(n.Left) || isNumber(n.Right) {
			g.patchOperator(node, "the +", n.Left, n.Right)
			return
		}
		ast.Patch(node, newCall(addName, n.Left, n.Right))
	case "-", "*", "/", "%", "**":
		g.patchOperator(node, "the "+n.Operator, n.Left, n.Right)
	case "^":
		g.patchOperator(node, "the **", n.Left, n.Right)
	case "<", "<=", ">", ">=":
		g.patchOperator(node, "the "+n.Operator, n.Left, n.Right)
	case "..":
		wrapBound(&n.Left)
		wrapBound(&n.Right)
	case "==":
		g.guardEquality(node, n)
	case "!=":
		if g.guardEquality(node, n); *node != ast.Node(n) {
			not := &ast.UnaryNode{Operator: "not", Node: *node}
			not.SetType(reflect.TypeFor[bool]())
			ast.Patch(node, not)
		}
	case "in":
		if !isScalarList(n.Right) {
			ast.Patch(node, newBoolCall(inName, n.Left, n.Right))
		}
	case "matches":
		ast.Patch(node, newBoolCall(matchesName, n.Left, compileLiteral(n.Right)))
	}
}

// guardEquality guards comparisons between two values that may both be lists or maps.
func (g *guard) guardEquality(node *ast.Node, n *ast.BinaryNode) {
	if !isExactLiteral(n.Left) && !isExactLiteral(n.Right) {
		ast.Patch(node, newBoolCall(equalName, n.Left, n.Right))
	}
}

// coerceToBool makes nil false where a boolean is required.
func (g *guard) coerceToBool(node *ast.Node) {
	if (*node).Type().Kind() != reflect.Bool {
		ast.Patch(node, newBoolCall(boolName, *node))
	}
}

// wrapInCall replaces a node with a call that takes the node and has its type.
func wrapInCall(node *ast.Node, name string) {
	wrapped := newCall(name, *node)
	wrapped.SetType((*node).Type())
	ast.Patch(node, wrapped)
}

func newCall(name string, args ...ast.Node) *ast.CallNode {
	args = append([]ast.Node{&ast.IdentifierNode{Value: meterName}}, args...)
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// patchOperator replaces an operator with a call to one of numberOperators. Operators on times
// stay: their methods need the type.
func (g *guard) patchOperator(node *ast.Node, name string, left, right ast.Node) {
	if isTime((*node).Type()) {
		return
	}
	call := g.newOperatorCall(name, left, right)
	if t := (*node).Type(); t.Kind() == reflect.Bool {
		call.SetType(t)
	}
	ast.Patch(node, call) // of unknown type: an integer is an int64, or too large for one
}

func (g *guard) newOperatorCall(name string, left, right ast.Node) *ast.CallNode {
	apply := numberOperators()[name]
	g.operators[name] = apply
	callee := &ast.IdentifierNode{Value: name}
	callee.SetType(reflect.TypeOf(apply))
	return &ast.CallNode{Callee: callee, Arguments: []ast.Node{left, right}}
}

// wrapBound guards a range bound that is not a literal.
func wrapBound(node *ast.Node) {
	if !isNumber(*node) {
		wrapInCall(node, boundName)
	}
}

func newBoolCall(name string, args ...ast.Node) *ast.CallNode {
	c := newCall(name, args...)
	c.SetType(reflect.TypeFor[bool]())
	return c
}

func isNumber(n ast.Node) bool {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return true
	}
	return false
}

// isExactLiteral reports whether the library compares a literal with any number exactly.
func isExactLiteral(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.StringNode, *ast.BoolNode, *ast.NilNode:
		return true
	case *ast.IntegerNode:
		return -maxSafeInteger < n.Value && n.Value < maxSafeInteger
	}
	return false
}

func isScalarList(n ast.Node) bool {
	list, ok := n.(*ast.ArrayNode)
	return ok && !slices.ContainsFunc(list.Nodes, func(n ast.Node) bool { return !isExactLiteral(n) })
}

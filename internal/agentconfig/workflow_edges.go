package agentconfig

import (
	"path"
	"reflect"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// startName names the start in edges.
const startName = "START"

// defaultRoute is ADK for Python's default route. adk-go uses the word default in any case, which
// is an ordinary route in Python.
const defaultRoute = "__DEFAULT__"

// workflowEdges is the YAML for a workflow's edges: a list with chains and single edges.
type workflowEdges struct {
	refs  []*AgentRef
	names []string
	// aliases maps code names' last words to nodes.
	aliases   map[string]int
	firstUses []*spec.Node // where each node is first used
	edges     []parsedEdge
	uses      []NodeUse
	// routeExprs are the routes' expressions, and routeNodes their places.
	routeExprs []spec.Expr
	routeNodes []*spec.Node
	// invalid reports whether some edges could not be decoded.
	invalid bool
	// warned has the differences between ADK's languages that were reported.
	warned map[string]bool
}

// parsedEdge is an edge with its position. single is a single edge's mapping, which may have
// several routes, and nil in a chain.
type parsedEdge struct {
	runtime.Edge
	at, single *spec.Node
}

// SchemaSpec describes the form.
func (w *workflowEdges) SchemaSpec() map[string]any {
	node := map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"$ref": "#/$defs/agent"}}}
	target := map[string]any{"anyOf": []any{node, map[string]any{"type": "array", "minItems": 1, "items": node}}}
	route := map[string]any{"type": []any{"string", "boolean", "integer"}}
	return map[string]any{
		"title": "list of chains and edges", "type": "array",
		"items": map[string]any{"anyOf": []any{
			map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{
				target,
				map[string]any{"type": "object", "additionalProperties": target},
				map[string]any{
					"type": "object", "additionalProperties": false, "required": []string{"route", "to"},
					"properties": map[string]any{
						"route": (&spec.Expr{}).SchemaSpec(),
						"to":    map[string]any{"type": "object", "additionalProperties": target},
					},
				},
			}}},
			map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"from_node", "to_node"},
				"properties": map[string]any{
					"from_node": node, "to_node": node,
					"route": map[string]any{"anyOf": []any{route, map[string]any{"type": "array", "items": route}}},
				},
			},
		}},
	}
}

// DecodeSpec decodes the chains and edges.
func (w *workflowEdges) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Sequence {
		return spec.Diagnostics{n.Errorf("type", "edges must be a list of chains, such as - [START, first.yaml, second.yaml]")}
	}
	w.aliases, w.warned = map[string]int{}, map[string]bool{}
	var ds spec.Diagnostics
	for _, item := range n.Items {
		if item.Get("from_node") != nil || item.Get("to_node") != nil {
			first := len(w.edges)
			ds = append(ds, w.decodeEdge(item)...)
			for i := first; i < len(w.edges); i++ {
				w.edges[i].single = item
			}
		} else {
			ds = append(ds, w.decodeChain(item)...)
		}
	}
	w.invalid = ds.HasErrors()
	return ds
}

// chainEnd is a chain's end: the nodes from which the next edges start, and the routes that lead to
// them, if any.
type chainEnd struct {
	nodes  []int
	routes *spec.Node
	// before are the nodes before the routes.
	before []int
}

// decodeChain decodes a chain. Edges connect every node in an element to every node in the next
// one; route nodes are their targets.
func (w *workflowEdges) decodeChain(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Sequence || len(n.Items) < 2 {
		return spec.Diagnostics{n.Errorf("edges", "a chain must be a list of at least two nodes, or of a node and its routes")}
	}
	var ds spec.Diagnostics
	var end chainEnd
	for i, item := range n.Items {
		var found spec.Diagnostics
		switch {
		case item.Kind != spec.Mapping || isInlineNode(item):
			end, found = w.extendChain(end, item, i == 0)
		case i == 0:
			found = spec.Diagnostics{item.Errorf("edges", "routes must follow the node that they start from")}
		case end.routes != nil:
			found = spec.Diagnostics{item.Errorf("edges", "routes must follow a node, not other routes").
				WithHint("write each route mapping in its own chain: - [node, {…}]")}
		default:
			var targets []int
			targets, found = w.decodeRoutes(end.nodes, item)
			end = chainEnd{nodes: targets, routes: item, before: end.nodes}
		}
		if ds = append(ds, found...); ds.HasErrors() {
			return ds
		}
	}
	return ds
}

// extendChain adds edges to a node or to each node in a list.
func (w *workflowEdges) extendChain(end chainEnd, item *spec.Node, first bool) (chainEnd, spec.Diagnostics) {
	items := []*spec.Node{item}
	if item.Kind == spec.Sequence {
		items = item.Items
	}
	if len(items) == 0 {
		return end, spec.Diagnostics{item.Errorf("edges", "a list of nodes in a chain must not be empty")}
	}
	var ds spec.Diagnostics
	var next chainEnd
	for _, one := range items {
		to, found := runtime.Start, spec.Diagnostics(nil)
		if !first || one.Kind != spec.Scalar || one.Value != startName {
			to, found = w.resolveNode(one)
		}
		if ds = append(ds, found...); ds.HasErrors() {
			return end, ds
		}
		next.nodes = append(next.nodes, to)
		for _, from := range end.nodes {
			ds = append(ds, w.addEdge(runtime.Edge{From: from, To: to}, one)...)
		}
	}
	if end.routes != nil {
		var names []string
		for _, i := range end.before {
			names = append(names, w.nodeName(i))
		}
		before := strings.Join(names, ", ")
		ds = append(ds, w.warnOnce("routes", item.Warnf("edges", "the chain continues from the targets of the routes, as in ADK for Python; adk-go continues from %s", before).
			WithHint("to continue from %s, write a separate chain: - [%[1]s, …]", before))...)
	}
	return next, ds
}

// warnOnce returns a warning the first time that it is called with a key.
func (w *workflowEdges) warnOnce(key string, warning spec.Diagnostic) spec.Diagnostics {
	if w.warned[key] {
		return nil
	}
	w.warned[key] = true
	return spec.Diagnostics{warning}
}

// decodeRoutes decodes {value: node}, or {route: EXPR, to: {value: node}}, with a node
// or a list of nodes as targets. It returns the targets.
func (w *workflowEdges) decodeRoutes(from []int, n *spec.Node) ([]int, spec.Diagnostics) {
	by, to, ds := w.decodeRouteExpr(n)
	switch {
	case ds.HasErrors():
		return nil, ds
	case by == nil && slices.Contains(from, runtime.Start):
		return nil, spec.Diagnostics{startRouteError(n)}
	case len(to.Entries) == 0:
		return nil, spec.Diagnostics{n.Errorf("edges", "routes must not be empty").WithHint("write {value: node}")}
	}
	var targets []int
	for _, entry := range to.Entries {
		route, found := w.decodeRouteKey(entry.Key, by)
		items := []*spec.Node{entry.Value}
		if entry.Value.Kind == spec.Sequence {
			items = entry.Value.Items
		}
		if len(items) == 0 {
			found = append(found, entry.Value.Errorf("edges", "route %s has no target", entry.Key.Value))
		}
		ds = append(ds, found...)
		for _, item := range items {
			node, found := w.resolveNode(item)
			if ds = append(ds, found...); found.HasErrors() {
				continue
			}
			if !slices.Contains(targets, node) {
				targets = append(targets, node)
			}
			for _, f := range from {
				route.From, route.To = f, node
				ds = append(ds, w.addEdge(route, item)...)
			}
		}
	}
	return targets, ds
}

// decodeRouteExpr compiles the expression of {route: EXPR, to: {value: node}}, and returns its
// route mapping. Other mappings are returned without an expression.
func (w *workflowEdges) decodeRouteExpr(n *spec.Node) (*template.Expr, *spec.Node, spec.Diagnostics) {
	to := n.Get("to")
	if len(n.Entries) != 2 || n.Get("route") == nil || to == nil || to.Kind != spec.Mapping {
		return nil, n, nil
	}
	var e spec.Expr
	if ds := e.DecodeSpec(n.Get("route")); ds.HasErrors() {
		return nil, to, ds
	}
	by, ds := compileExpr(e, runtime.ExprEnv(), template.Compile)
	w.routeExprs, w.routeNodes = append(w.routeExprs, e), append(w.routeNodes, n.Get("route"))
	return by, to, ds
}

func startRouteError(at *spec.Node) spec.Diagnostic {
	return at.Errorf("edges", "START has no output to route on").WithHint("write {route: EXPR, to: {value: node}}")
}

// decodeRouteKey returns an edge with a route, without its nodes.
func (w *workflowEdges) decodeRouteKey(at *spec.Node, by *template.Expr) (runtime.Edge, spec.Diagnostics) {
	e := runtime.Edge{Kind: runtime.EdgeRoute, By: by}
	switch v := at.TypedKey().(type) {
	case bool, int64:
		e.Route = v
		return e, nil
	}
	text := strings.TrimSpace(at.Value)
	switch {
	case text == defaultRoute:
		e.Kind = runtime.EdgeDefault
	case strings.EqualFold(text, "default"):
		e.Kind = runtime.EdgeDefault
		if by == nil {
			return e, w.warnOnce("default", at.Warnf("edges", "the route %s is the default route, as in adk-go; in ADK for Python it is an ordinary value", text).
				WithHint("write %s, the default route of ADK for Python", defaultRoute))
		}
	default:
		e.Route = text
	}
	return e, nil
}

// decodeEdge decodes {from_node, to_node, route}.
func (w *workflowEdges) decodeEdge(n *spec.Node) spec.Diagnostics {
	for _, entry := range n.Entries {
		if !slices.Contains([]string{"from_node", "to_node", "route"}, entry.Key.Value) {
			return spec.Diagnostics{entry.Key.Errorf("edges", "unknown field %q of an edge", entry.Key.Value).WithHint("valid fields: from_node, to_node, route")}
		}
	}
	from, to, route := n.Get("from_node"), n.Get("to_node"), n.Get("route")
	if from.IsNull() || to.IsNull() {
		return spec.Diagnostics{n.Errorf("edges", "an edge requires from_node and to_node")}
	}
	e := runtime.Edge{From: runtime.Start}
	var ds spec.Diagnostics
	if from.Kind != spec.Scalar || from.Value != startName {
		e.From, ds = w.resolveNode(from)
	}
	node, found := w.resolveNode(to)
	e.To, ds = node, append(ds, found...)
	switch {
	case ds.HasErrors():
		return ds
	case route.IsNull():
		return append(ds, w.addEdge(e, to)...)
	case e.From == runtime.Start:
		return append(ds, startRouteError(route))
	}
	return append(ds, w.addRoutedEdges(e, route)...)
}

// addRoutedEdges adds an edge for a route or for each route in a list.
func (w *workflowEdges) addRoutedEdges(e runtime.Edge, at *spec.Node) spec.Diagnostics {
	items := []*spec.Node{at}
	if at.Kind == spec.Sequence {
		items = at.Items
	}
	var ds spec.Diagnostics
	for _, item := range items {
		if item.Kind != spec.Scalar || item.IsNull() {
			return append(ds, item.Errorf("type", "a route must be a string, an integer or a boolean"))
		}
		routed, found := w.decodeRouteKey(item, nil)
		ds = append(ds, found...)
		if routed.Kind == runtime.EdgeDefault && len(items) > 1 {
			return append(ds, item.Errorf("edges", "the default route must not be in a list of routes").WithHint("write a separate edge"))
		}
		routed.From, routed.To = e.From, e.To
		ds = append(ds, w.addEdge(routed, item)...)
	}
	return ds
}

// addEdge adds an edge. It rejects duplicates, and routes to a node that an edge
// without a route leads to.
func (w *workflowEdges) addEdge(e runtime.Edge, at *spec.Node) spec.Diagnostics {
	for _, o := range w.edges {
		switch {
		case o.From != e.From || o.To != e.To:
		case o.Edge == e:
			return spec.Diagnostics{at.Errorf("edges", "duplicate edge from %s to %s", w.nodeName(e.From), w.nodeName(e.To))}
		case o.Kind == runtime.EdgeAlways || e.Kind == runtime.EdgeAlways:
			return spec.Diagnostics{at.Errorf("edges", "edges from %s to %s with and without a route", w.nodeName(e.From), w.nodeName(e.To)).
				WithHint("remove one of them: the edge without a route is always followed")}
		}
	}
	w.edges = append(w.edges, parsedEdge{Edge: e, at: at})
	return nil
}

func (w *workflowEdges) nodeName(i int) string {
	if i == runtime.Start {
		return startName
	}
	return w.names[i]
}

// resolveNode returns a node's index, and notes its place. All references to the same node have the
// same index.
func (w *workflowEdges) resolveNode(n *spec.Node) (int, spec.Diagnostics) {
	i, ds := w.findNode(n)
	w.uses = append(w.uses, NodeUse{i, n})
	return i, ds
}

func (w *workflowEdges) findNode(n *spec.Node) (int, spec.Diagnostics) {
	switch {
	case isReference(n):
		return w.findNode(n.Entries[0].Value)
	case isInlineNode(n):
		return w.resolveInlineNode(n)
	case n.Kind != spec.Scalar || n.IsNull():
		return 0, spec.Diagnostics{n.Errorf("type", "a node must be START, the file of an agent, a name under agents, or an inline agent with a name")}
	case n.Value == startName:
		return 0, spec.Diagnostics{n.Errorf("edges", "an edge must not lead to START")}
	}
	name, key := n.Value, "use"
	switch {
	case isFile(name):
		name, key = path.Clean(name), "config_path"
	case strings.Contains(name, "."):
		key = "code"
	}
	if i := slices.Index(w.names, name); i >= 0 {
		return i, nil
	}
	if i, ok := w.aliases[name]; ok {
		return i, nil
	}
	ref := &AgentRef{}
	ds := ref.DecodeSpec(wrapInMapping(key, n))
	i := w.addNode(name, ref, n)
	if key == "code" {
		w.aliases[name[strings.LastIndex(name, ".")+1:]] = i
	}
	return i, ds
}

func (w *workflowEdges) addNode(name string, ref *AgentRef, at *spec.Node) int {
	w.refs, w.names, w.firstUses = append(w.refs, ref), append(w.names, name), append(w.firstUses, at)
	return len(w.names) - 1
}

// isReference reports whether a mapping refers to a node by its name, its file or its code. A code
// name has a dot; without one, code is a route.
func isReference(n *spec.Node) bool {
	if n.Kind != spec.Mapping || len(n.Entries) != 1 {
		return false
	}
	e := n.Entries[0]
	if e.Value.Kind != spec.Scalar {
		return false
	}
	return e.Key.Value == "name" || e.Key.Value == "config_path" || e.Key.Value == "code" && strings.Contains(e.Value.Value, ".") && !isFile(e.Value.Value)
}

func isFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// isInlineNode distinguishes a node from routes: it has the key for a class, a file or a function,
// or a name and only LlmAgent fields (adk-python 2.9 agents/config_agent_utils.py). A mapping with
// a name and an instruction is an agent even with a misspelled field.
func isInlineNode(n *spec.Node) bool {
	has := func(key string) bool { return n.Get(key) != nil }
	switch {
	case n.Kind != spec.Mapping:
		return false
	case isReference(n), has("agent_class"), has("config_path"), has("func_code"):
		return true
	case !has("name") || n.Get("name").Kind != spec.Scalar:
		return false
	case has("instruction"), has("instruction_provider"):
		return true
	}
	fields := llmFields()
	for _, key := range n.Keys() {
		if !slices.Contains(fields, key) && !slices.Contains(fields, strings.TrimSuffix(key, "_code")) {
			return false
		}
	}
	return true
}

// llmFields returns an LlmAgent's fields.
func llmFields() []string {
	var names []string
	for _, f := range spec.Fields(reflect.TypeFor[llmConfig]()) {
		names = append(names, f.Name)
	}
	return names
}

// resolveInlineNode returns an inline node's index, which other edges refer to by name.
func (w *workflowEdges) resolveInlineNode(n *spec.Node) (int, spec.Diagnostics) {
	ref := &AgentRef{}
	ds := ref.DecodeSpec(n)
	at := n.Get("name")
	if at.IsNull() {
		return w.addNode("", ref, n), ds // the missing name is reported with the node
	}
	name := at.Value
	i := slices.Index(w.names, name)
	switch {
	case i < 0:
		i = w.addNode(name, ref, n)
	case w.refs[i].Inline != nil:
		ds = append(ds, n.Errorf("edges", "node %s is already declared inline: refer to it by name", name))
	default:
		w.refs[i] = ref
	}
	return i, ds
}

func (w *workflowEdges) listEdges() []runtime.Edge {
	edges := make([]runtime.Edge, len(w.edges))
	for i, e := range w.edges {
		edges[i] = e.Edge
	}
	return edges
}

package export

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// ADK reads graphs from YAML since 2.9 (adk-python agents/config_agent_utils.py), and its
// loader is stricter than this one:
//
//   - A node is a file, an inline node, code, or the name of a node of an earlier edge.
//   - Two nodes have at most one edge (workflow/utils/_graph_validation.py). Several routes
//     to one node are one edge with a list of routes.
//   - START reaches all nodes, and none is a SequentialAgent, ParallelAgent or LoopAgent.
//   - The keys 1 and true are the same key, and an unquoted yes is a boolean.
//
// An export writes the same graph by these rules where that is possible.

// defaultRoute is ADK's name for the default route.
const defaultRoute = "__DEFAULT__"

// findForeignInGraph returns the findings in a workflow's edges, without those in its nodes.
func (a *exportedApp) findForeignInGraph(p *loader.InspectedAgent) []finding {
	c, ok := p.Config.(agentconfig.EdgeConfig)
	if !ok {
		return nil
	}
	g := c.Graph()
	all := findForeignUses(p, g)
	for _, expr := range g.RouteExprs {
		all = append(all, newFinding(expr, "ADK routes by a node's result, not by an expression", false).
			withHint("let a FunctionNode with func_code return the route"))
	}
	all = append(all, findDuplicateEdges(p, g)...)
	for _, u := range g.Unreachable {
		all = append(all, newFinding(u.At, "ADK rejects a graph with a node that START does not reach: "+p.Agents[u.Node].Name, false).
			withHint("add an edge that leads to the node, or remove the node"))
	}
	for _, sub := range p.Agents {
		if class := sub.Class; slices.Contains([]string{"SequentialAgent", "ParallelAgent", "LoopAgent"}, class) {
			all = append(all, newFinding(sub.Node, "ADK rejects a "+class+" as a Workflow node", false).
				withHint("write its sub-agents as nodes, with edges between them"))
		}
	}
	return append(all, findForeignRoutes(p.Node.Get("edges"), listUses(g))...)
}

// findForeignUses returns the findings in the places that name nodes: ADK has no names under
// agents, and no names from later edges.
func findForeignUses(p *loader.InspectedAgent, g *agentconfig.Graph) []finding {
	var all []finding
	introduced := map[int]bool{}
	for _, u := range g.Uses {
		all = append(all, findUseReferences(u.At)...)
		sub := p.Agents[u.Node]
		switch {
		case introduced[u.Node]:
			continue
		case sub.At.Get("use") != nil:
			all = append(all, newFinding(u.At, "ADK has no names under agents: it rejects "+sub.Name+" in edges as an unknown node", true))
		case isInlineAgent(sub) && u.At != sub.At:
			all = append(all, newFinding(u.At, "ADK rejects "+sub.Name+" as an unknown node: it is declared only later in edges", true))
		}
		introduced[u.Node] = true
	}
	return all
}

// findUseReferences returns the ${…} references in a node name. The node itself reports the
// references in an inline node.
func findUseReferences(n *spec.Node) []finding {
	if n.Kind == spec.Mapping && len(n.Entries) > 1 {
		return nil
	}
	return findReferences(n)
}

// isInlineAgent reports whether an agent is declared where it is used.
func isInlineAgent(p *loader.InspectedAgent) bool {
	return p.At.Get("config_path") == nil && p.At.Get("use") == nil && p.At.Get("code") == nil
}

// findDuplicateEdges returns a finding for each further edge between two nodes. An export
// merges several routes into one edge; a default route cannot be part of a list.
func findDuplicateEdges(p *loader.InspectedAgent, g *agentconfig.Graph) []finding {
	var all []finding
	for _, same := range groupEdges(g.Edges) {
		hasDefault := slices.ContainsFunc(same, func(e agentconfig.GraphEdge) bool { return e.Kind == runtime.EdgeDefault })
		for _, e := range listFurtherEdges(same) {
			f := newFinding(e.At, fmt.Sprintf("ADK rejects a second edge from %s to %s, also with another route", nodeName(p, e.From), nodeName(p, e.To)), !hasDefault)
			all = append(all, f.withHint("remove the route: the default route leads to the same node"))
		}
	}
	return all
}

// listFurtherEdges returns the edges that ADK reads after a first one. A single edge with a
// route list is one edge.
func listFurtherEdges(same []agentconfig.GraphEdge) []agentconfig.GraphEdge {
	var further []agentconfig.GraphEdge
	for i, e := range same[1:] {
		if e.Single == nil || e.Single != same[i].Single {
			further = append(further, e)
		}
	}
	return further
}

func nodeName(p *loader.InspectedAgent, i int) string {
	if i == runtime.Start {
		return "START"
	}
	return p.Agents[i].Name
}

// groupEdges groups edges by their nodes, in the order of each group's first edge.
func groupEdges(edges []agentconfig.GraphEdge) [][]agentconfig.GraphEdge {
	var groups [][]agentconfig.GraphEdge
	at := map[[2]int]int{}
	for _, e := range edges {
		i, known := at[[2]int{e.From, e.To}]
		if !known {
			i = len(groups)
			at[[2]int{e.From, e.To}] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], e)
	}
	return groups
}

func listUses(g *agentconfig.Graph) map[*spec.Node]int {
	uses := map[*spec.Node]int{}
	for _, u := range g.Uses {
		uses[u.At] = u.Node
	}
	return uses
}

// findForeignRoutes returns the findings in the routes below an edges element.
func findForeignRoutes(n *spec.Node, uses map[*spec.Node]int) []finding {
	if _, isNode := uses[n]; isNode {
		return nil
	}
	var all []finding
	if at := findEqualKeys(n); at != nil {
		all = append(all, newFinding(at, "ADK reads the routes "+at.Value+" and "+otherForm(at)+" as the same key, and keeps the last one", true))
	}
	for _, e := range n.Entries {
		if e.Key.IsBooleanInYAML11() {
			all = append(all, newFinding(e.Key, "ADK reads the route "+e.Key.Value+" as a boolean, because it has no quotes", true))
		}
		all = append(all, findForeignRoutes(e.Value, uses)...)
	}
	for _, item := range n.Items {
		all = append(all, findForeignRoutes(item, uses)...)
	}
	if n.IsBooleanInYAML11() {
		all = append(all, newFinding(n, "ADK reads the route "+n.Value+" as a boolean, because it has no quotes", true))
	}
	return all
}

// findEqualKeys returns a mapping key that equals an earlier one in Python: 1 and true, or 0
// and false.
func findEqualKeys(n *spec.Node) *spec.Node {
	seen := map[string]bool{}
	for _, e := range n.Entries {
		switch e.Key.TypedKey().(type) {
		case bool, int64:
			if seen[otherForm(e.Key)] {
				return e.Key
			}
			seen[fmt.Sprint(e.Key.TypedKey())] = true
		}
	}
	return nil
}

// otherForm returns the boolean that is equal to an integer in Python, or the other way
// round.
func otherForm(key *spec.Node) string {
	return map[any]string{int64(1): "true", int64(0): "false", true: "1", false: "0"}[key.TypedKey()]
}

// A graphWriter writes a workflow's edges, with its nodes.
type graphWriter struct {
	x    *exporter
	p    *loader.InspectedAgent
	uses map[*spec.Node]int
	// written has the references to the nodes that edges have introduced.
	written map[int]*spec.Node
}

// exportEdges writes a workflow's nodes, and returns its edges in the document's form, or as
// single edges if ADK would reject that form.
func (x *exporter) exportEdges(p *loader.InspectedAgent) *spec.Node {
	g := p.Config.(agentconfig.EdgeConfig).Graph()
	edges := p.Node.Get("edges")
	w := &graphWriter{x: x, p: p, uses: listUses(g), written: map[int]*spec.Node{}}
	hasDuplicates := func(same []agentconfig.GraphEdge) bool { return len(listFurtherEdges(same)) > 0 }
	if slices.ContainsFunc(groupEdges(g.Edges), hasDuplicates) || w.hasEqualKeys(edges) {
		return w.writeSingleEdges(g.Edges)
	}
	return w.rewriteElement(edges)
}

func (w *graphWriter) hasEqualKeys(n *spec.Node) bool {
	if _, isNode := w.uses[n]; isNode {
		return false
	}
	return findEqualKeys(n) != nil || slices.ContainsFunc(n.Items, w.hasEqualKeys) ||
		slices.ContainsFunc(n.Entries, func(e spec.Entry) bool { return w.hasEqualKeys(e.Value) })
}

// rewriteElement returns an edges element with the nodes as ADK reads them.
func (w *graphWriter) rewriteElement(n *spec.Node) *spec.Node {
	if i, isNode := w.uses[n]; isNode {
		return w.writeNode(i)
	}
	out := *n
	out.Entries, out.Items = nil, nil
	isEdge := n.Get("from_node") != nil
	for _, e := range n.Entries {
		switch {
		case isEdge && e.Key.Value == "route":
			e.Value = rewriteRoutes(e.Value)
		case isEdge:
			e.Value = w.rewriteElement(e.Value)
		default:
			e = spec.Entry{Key: rewriteRoutes(e.Key), Value: w.rewriteElement(e.Value)}
		}
		out.Entries = append(out.Entries, e)
	}
	for _, item := range n.Items {
		out.Items = append(out.Items, w.rewriteElement(item))
	}
	return &out
}

// rewriteRoutes returns a route, or a list of routes, in ADK's spelling.
func rewriteRoutes(n *spec.Node) *spec.Node {
	if n.Kind == spec.Sequence {
		out := *n
		out.Items = nil
		for _, item := range n.Items {
			out.Items = append(out.Items, rewriteRoutes(item))
		}
		return &out
	}
	switch v := n.TypedKey().(type) {
	case bool, int64:
		return newRoute(v)
	}
	if strings.EqualFold(strings.TrimSpace(n.Value), "default") {
		return newScalar(defaultRoute)
	}
	return newScalar(strings.TrimSpace(n.Value))
}

// newRoute returns a route with its type.
func newRoute(v any) *spec.Node {
	route := newScalar(fmt.Sprint(v))
	switch v.(type) {
	case bool:
		route.Tag = "!!bool"
	case int64:
		route.Tag = "!!int"
	}
	return route
}

// writeNode returns a node where edges first refer to it, with its file, and afterwards a
// reference. Inline nodes stay inline.
func (w *graphWriter) writeNode(i int) *spec.Node {
	if ref := w.written[i]; ref != nil {
		return ref
	}
	sub := w.p.Agents[i]
	if isInlineAgent(sub) {
		w.written[i] = newScalar(sub.Name)
		return w.x.exportAgent(sub)
	}
	ref := sub.At.Get("code")
	if ref == nil {
		ref = w.x.writeReferencedAgent(sub).Get("config_path")
	}
	w.written[i] = newScalar(ref.Value)
	return w.written[i]
}

// writeSingleEdges returns edges in the form {from_node, to_node, route}, one for each pair
// of nodes.
func (w *graphWriter) writeSingleEdges(edges []agentconfig.GraphEdge) *spec.Node {
	list := &spec.Node{Kind: spec.Sequence, Tag: "!!seq"}
	for _, same := range groupEdges(edges) {
		from := newScalar("START")
		if same[0].From != runtime.Start {
			from = w.writeNode(same[0].From)
		}
		edge := newMapping("from_node", from)
		edge.Entries = append(edge.Entries, spec.Entry{Key: newScalar("to_node"), Value: w.writeNode(same[0].To)})
		if same[0].Kind != runtime.EdgeAlways {
			edge.Entries = append(edge.Entries, spec.Entry{Key: newScalar("route"), Value: writeRoutes(same)})
		}
		list.Items = append(list.Items, edge)
	}
	return list
}

// writeRoutes returns an edge's route, or the list if it has several.
func writeRoutes(edges []agentconfig.GraphEdge) *spec.Node {
	list := &spec.Node{Kind: spec.Sequence, Tag: "!!seq"}
	for _, e := range edges {
		route := newRoute(e.Route)
		if e.Kind == runtime.EdgeDefault {
			route = newScalar(defaultRoute)
		}
		list.Items = append(list.Items, route)
	}
	if len(list.Items) == 1 {
		return list.Items[0]
	}
	return list
}

// findForeignInNode returns the findings in a field of a Workflow or its nodes that ADK has,
// but in another form.
func findForeignInNode(e spec.Entry) []finding {
	switch n := e.Value; e.Key.Value {
	case "timeout", "initial_delay", "max_delay":
		if !isNumber(n) {
			return []finding{newFinding(n, "ADK requires a number of seconds here", true)}
		}
	case "retry_config":
		var all []finding
		for _, setting := range n.Entries {
			all = append(all, findForeignInNode(setting)...)
		}
		return all
	case "exceptions":
		return []finding{newFinding(n, "ADK requires Python exception names here, not error codes", false)}
	case "func_code":
		if agentconfig.CodeRef(n) == nil {
			return []finding{newFinding(n, "ADK requires a dotted Python function name here", false)}
		}
	}
	return nil
}

func isNumber(n *spec.Node) bool {
	return n.IsNull() || n.Tag == "!!int" || n.Tag == "!!float"
}

// exportSeconds returns a duration, or the durations in a mapping, as a number of seconds.
func exportSeconds(key string, n *spec.Node) *spec.Node {
	if key == "retry_config" {
		out := *n
		out.Entries = nil
		for _, e := range n.Entries {
			out.Entries = append(out.Entries, spec.Entry{Key: e.Key, Value: exportSeconds(e.Key.Value, e.Value)})
		}
		return &out
	}
	var d spec.Duration
	if isNumber(n) || len(findForeignInNode(spec.Entry{Key: newScalar(key), Value: n})) == 0 || d.DecodeSpec(n).HasErrors() {
		return n
	}
	return &spec.Node{Kind: spec.Scalar, Tag: "!!float", Value: strconv.FormatFloat(time.Duration(d).Seconds(), 'f', -1, 64)}
}

// exportSchema returns an input schema's JSON Schema.
func exportSchema(n *spec.Node) *spec.Node {
	var short spec.ShortSchema
	if n.IsNull() || short.DecodeSpec(n).HasErrors() || short.IsFull() {
		return n
	}
	text, err := json.Marshal(short.JSON())
	if err != nil {
		return n
	}
	full, _ := spec.Parse(n.Pos.File, text)
	return full
}

package agentconfig

import (
	"context"
	"path"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// workflowConfig is the YAML of a Workflow, ADK's graph of agents (adk-go
// configurable_workflow.go; adk-python has it in samples only).
type workflowConfig struct {
	Common         CommonConfig  `yaml:",inline"`
	Edges          workflowEdges `yaml:"edges" required:"true" doc:"Chains of nodes, each a list: START, files of agents, names under agents, inline agents, and at the end {route: node}, or {route: EXPR, to: {value: node}}."`
	MaxConcurrency int           `yaml:"max_concurrency" doc:"Maximum number of nodes that run at the same time; 0 means no limit."`
}

func (c *workflowConfig) AgentRefs() []*AgentRef { return c.Edges.refs }

// Check validates the graph.
func (c *workflowConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if at := n.Get("sub_agents"); at != nil {
		ds = append(ds, at.Errorf("edges", "declare the agents of a Workflow in edges, by file or by their name under agents"))
	}
	if at := n.Get("max_concurrency"); c.MaxConcurrency < 0 {
		ds = append(ds, at.Errorf("edges", "max_concurrency must be 0 or more, got %d", c.MaxConcurrency))
	}
	return append(ds, c.Edges.validateGraph(n.Get("edges"))...)
}

func newWorkflow(_ context.Context, env AgentEnv, c *workflowConfig) (runtime.Agent, error) {
	return runtime.NewWorkflow(c.Common.Name.Value, &runtime.WorkflowOptions{
		Description: c.Common.Description, Nodes: env.SubAgents, Edges: c.Edges.listEdges(), MaxConcurrency: c.MaxConcurrency,
	})
}

// workflowEdges is the YAML of a workflow's edges: a list of chains.
type workflowEdges struct {
	refs      []*AgentRef
	names     []string
	firstUses []*spec.Node // the first use of each node
	edges     []parsedEdge
	// routeExprs are the expressions of routes.
	routeExprs []spec.Expr
	// invalid reports whether some edges could not be decoded.
	invalid bool
}

// parsedEdge is an edge with its position.
type parsedEdge struct {
	runtime.Edge
	at *spec.Node
}

// SchemaSpec describes the form.
func (w *workflowEdges) SchemaSpec() map[string]any {
	target := map[string]any{"anyOf": []any{map[string]any{"type": "string"}, map[string]any{"$ref": "#/$defs/agent"}}}
	return map[string]any{
		"title": "list of lists", "type": "array",
		"items": map[string]any{"type": "array", "items": map[string]any{"anyOf": []any{
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
	}
}

// DecodeSpec decodes the chains.
func (w *workflowEdges) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Sequence {
		return spec.Diagnostics{n.Errorf("type", "edges must be a list of chains, such as - [START, first.yaml, second.yaml]")}
	}
	var ds spec.Diagnostics
	for _, chain := range n.Items {
		ds = append(ds, w.decodeChain(chain)...)
	}
	w.invalid = ds.HasErrors()
	return ds
}

// decodeChain decodes a chain: nodes, each connected to the previous one by an
// edge, and mappings, which are routes from the last node.
func (w *workflowEdges) decodeChain(n *spec.Node) spec.Diagnostics {
	if n.Kind != spec.Sequence || len(n.Items) < 2 {
		return spec.Diagnostics{n.Errorf("edges", "a chain must be a list of at least two nodes, or of a node and its routes")}
	}
	var ds spec.Diagnostics
	last, started := runtime.Start, false
	for _, item := range n.Items {
		routes := item.Kind == spec.Mapping && !isInlineAgent(item)
		switch {
		case routes && !started:
			ds = append(ds, item.Errorf("edges", "routes must follow the node that they start from"))
		case routes:
			ds = append(ds, w.decodeRoutes(last, item)...)
		case item.Value == "START" && !started:
			started = true
		default:
			to, found := w.resolveNode(item)
			ds = append(ds, found...)
			if started && !found.HasErrors() {
				ds = append(ds, w.addEdge(runtime.Edge{From: last, To: to}, item)...)
			}
			last, started = to, true
		}
		if ds.HasErrors() {
			return ds
		}
	}
	return ds
}

// decodeRoutes decodes {value: node}, or {route: EXPR, to: {value: node}}.
func (w *workflowEdges) decodeRoutes(from int, n *spec.Node) spec.Diagnostics {
	var by *template.Expr
	if to := n.Get("to"); len(n.Entries) == 2 && n.Get("route") != nil && to != nil && to.Kind == spec.Mapping {
		var e spec.Expr
		ds := e.DecodeSpec(n.Get("route"))
		if !ds.HasErrors() {
			by, ds = compileExpr(e, runtime.ExprEnv(), template.Compile)
			w.routeExprs = append(w.routeExprs, e)
		}
		if ds.HasErrors() {
			return ds
		}
		n = to
	} else if from == runtime.Start {
		return spec.Diagnostics{n.Errorf("edges", "START has no output to route on").WithHint("write {route: EXPR, to: {value: node}}")}
	}
	var ds spec.Diagnostics
	for _, entry := range n.Entries {
		to, found := w.resolveNode(entry.Value)
		ds = append(ds, found...)
		if found.HasErrors() {
			continue
		}
		e := runtime.Edge{From: from, To: to, Kind: runtime.EdgeRoute, Route: strings.TrimSpace(entry.Key.Value), By: by}
		if strings.EqualFold(e.Route, "default") {
			e.Kind, e.Route = runtime.EdgeDefault, ""
		}
		ds = append(ds, w.addEdge(e, entry.Value)...)
	}
	return ds
}

// addEdge adds an edge, and rejects duplicates.
func (w *workflowEdges) addEdge(e runtime.Edge, at *spec.Node) spec.Diagnostics {
	same := func(o parsedEdge) bool { return o.Edge == e }
	if slices.ContainsFunc(w.edges, same) {
		return spec.Diagnostics{at.Errorf("edges", "duplicate edge from %s to %s", w.nodeName(e.From), w.nodeName(e.To))}
	}
	w.edges = append(w.edges, parsedEdge{e, at})
	return nil
}

func (w *workflowEdges) nodeName(i int) string {
	if i == runtime.Start {
		return "START"
	}
	return w.names[i]
}

// resolveNode returns the index of a node. All references to the same node have
// the same index.
func (w *workflowEdges) resolveNode(n *spec.Node) (int, spec.Diagnostics) {
	switch {
	case isInlineAgent(n):
		return w.resolveInlineNode(n)
	case n.Kind != spec.Scalar || n.IsNull():
		return 0, spec.Diagnostics{n.Errorf("type", "a node must be START, the file of an agent, a name under agents, or an inline agent with a name")}
	case n.Value == "START":
		return 0, spec.Diagnostics{n.Errorf("edges", "an edge must not lead to START")}
	}
	name, key := n.Value, "use"
	switch {
	case strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml"):
		name, key = path.Clean(name), "config_path"
	case strings.Contains(name, "."):
		key = "code"
	}
	if i := slices.Index(w.names, name); i >= 0 {
		return i, nil
	}
	ref := &AgentRef{}
	ds := ref.DecodeSpec(wrapInMapping(key, n))
	return w.addNode(name, ref, n), ds
}

func (w *workflowEdges) addNode(name string, ref *AgentRef, at *spec.Node) int {
	w.refs, w.names, w.firstUses = append(w.refs, ref), append(w.names, name), append(w.firstUses, at)
	return len(w.names) - 1
}

// isInlineAgent distinguishes an inline agent from routes.
func isInlineAgent(n *spec.Node) bool {
	has := func(key string) bool { return n.Get(key) != nil }
	return n.Kind == spec.Mapping && has("name") && (has("agent_class") || has("instruction") || has("instruction_provider"))
}

// resolveInlineNode returns the index of an inline node, which other edges refer
// to by name.
func (w *workflowEdges) resolveInlineNode(n *spec.Node) (int, spec.Diagnostics) {
	name := n.Get("name").Value
	ref := &AgentRef{}
	ds := ref.DecodeSpec(n)
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

// validateGraph requires an edge from START, and rejects unreachable nodes and
// infinite loops.
func (w *workflowEdges) validateGraph(at *spec.Node) spec.Diagnostics {
	if at == nil || at.Kind != spec.Sequence || w.invalid {
		return nil
	}
	forward := func(e parsedEdge) (int, int) { return e.From, e.To }
	backward := func(e parsedEdge) (int, int) { return e.To, e.From }
	reached := w.reachableFrom([]int{runtime.Start}, forward)
	if len(reached) == 1 {
		return spec.Diagnostics{at.Errorf("edges", "no edge starts at START").WithHint("start a chain with it: - [START, first.yaml]")}
	}
	var ends []int
	for i := range w.names {
		if w.mayEnd(i) {
			ends = append(ends, i)
		}
	}
	ending := w.reachableFrom(ends, backward)
	var ds spec.Diagnostics
	for i, n := range w.firstUses {
		switch {
		case !reached[i]:
			ds = append(ds, n.Warnf("edges", "node %s is not reachable from START: it never runs", w.names[i]))
		case !ending[i]:
			ds = append(ds, n.Errorf("edges", "no path leads from %s to an end: infinite loop", w.names[i]).
				WithHint("add routes to a node of the cycle"))
		}
	}
	return ds
}

// mayEnd reports whether a path may end at a node: none of its edges is always
// followed, and it has no default route.
func (w *workflowEdges) mayEnd(i int) bool {
	return !slices.ContainsFunc(w.edges, func(e parsedEdge) bool { return e.From == i && e.Kind != runtime.EdgeRoute })
}

// reachableFrom returns the nodes reachable along the edges; endpoints selects
// their direction.
func (w *workflowEdges) reachableFrom(from []int, endpoints func(parsedEdge) (int, int)) map[int]bool {
	reached := map[int]bool{}
	for len(from) > 0 {
		next := from[len(from)-1]
		from = from[:len(from)-1]
		if reached[next] {
			continue
		}
		reached[next] = true
		for _, e := range w.edges {
			if a, b := endpoints(e); a == next {
				from = append(from, b)
			}
		}
	}
	return reached
}

package agentconfig

import (
	"context"
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// workflowConfig is the YAML of a Workflow, ADK's agent graph (adk-python 2.9
// agents/config_agent_utils.py, adk-go configurable_workflow.go).
type workflowConfig struct {
	Common         CommonConfig  `yaml:",inline"`
	Edges          workflowEdges `yaml:"edges" required:"true" doc:"Chains and edges. A chain lists nodes, node lists, and routes: {value: node}, or {route: EXPR, to: {value: node}}. An edge is {from_node, to_node, route}."`
	InputSchema    inputSchema   `yaml:"input_schema" doc:"Schema for the input, and for the parameters when the workflow is called as a tool, as a short schema or a JSON Schema. A message is JSON text then."`
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
		InputSchema: c.InputSchema.schema,
	})
}

// Graph returns the edges as they are written.
func (c *workflowConfig) Graph() *Graph {
	w := &c.Edges
	g := &Graph{Uses: w.uses, RouteExprs: w.routeNodes}
	for _, e := range w.edges {
		g.Edges = append(g.Edges, GraphEdge{e.Edge, e.at, e.single})
	}
	reached := w.reachableFrom([]int{runtime.Start}, func(e parsedEdge) (int, int) { return e.From, e.To })
	for i, at := range w.firstUses {
		if !reached[i] {
			g.Unreachable = append(g.Unreachable, NodeUse{i, at})
		}
	}
	return g
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
	ds := w.checkUnconditionalCycle(ending)
	for i, n := range w.firstUses {
		switch {
		case !reached[i]:
			ds = append(ds, n.Warnf("edges", "node %s is not reachable from START: it never runs", w.names[i]))
		case !ending[i]:
			ds = append(ds, n.Errorf("edges", "no path leads from %s to an end: infinite loop", w.names[i]).
				WithHint("add routes to a node of the cycle"))
		}
	}
	return append(ds, w.checkSoleEnd(reached)...)
}

// checkSoleEnd warns about a graph without routes that has more than one end: each end's output
// would be the workflow's.
func (w *workflowEdges) checkSoleEnd(reached map[int]bool) spec.Diagnostics {
	if slices.ContainsFunc(w.edges, func(e parsedEdge) bool { return e.Kind != runtime.EdgeAlways }) {
		return nil
	}
	var ends []int
	for i := range w.names {
		if reached[i] && w.mayEnd(i) {
			ends = append(ends, i)
		}
	}
	if len(ends) < 2 {
		return nil
	}
	return spec.Diagnostics{w.firstUses[ends[1]].Warnf("edges", "the workflow ends with %s and with %s: it fails if both have an output, as in ADK", w.names[ends[0]], w.names[ends[1]]).
		WithHint("let both lead to a JoinNode, or to another node")}
}

// mayEnd reports whether a path may end at a node: it has no edge that is always followed, and no
// default route.
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

// checkUnconditionalCycle rejects a cycle of edges that are always followed, even if routes leave
// it. Cycles that nothing leaves have their own error.
func (w *workflowEdges) checkUnconditionalCycle(ending map[int]bool) spec.Diagnostics {
	always := func(e parsedEdge) (int, int) {
		if e.Kind != runtime.EdgeAlways {
			return runtime.Start, runtime.Start
		}
		return e.From, e.To
	}
	for _, e := range w.edges {
		if e.Kind == runtime.EdgeAlways && ending[e.From] && w.reachableFrom([]int{e.To}, always)[e.From] {
			return spec.Diagnostics{e.at.Errorf("edges", "the edge from %s to %s closes a cycle without routes: infinite loop", w.nodeName(e.From), w.nodeName(e.To)).
				WithHint("give an edge of the cycle a route")}
		}
	}
	return nil
}

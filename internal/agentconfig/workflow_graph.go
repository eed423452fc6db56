package agentconfig

import (
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A Graph is the edges of a workflow as they are written, for checks and exports. Nodes are indexed
// in AgentRefs order.
type Graph struct {
	// Uses are the places that declare or name a node, in document order.
	Uses []NodeUse
	// Edges are the edges, in document order.
	Edges []GraphEdge
	// RouteExprs are the expressions whose values routes match.
	RouteExprs []*spec.Node
	// Unreachable are the first uses of nodes that no path from START reaches.
	Unreachable []NodeUse
}

// A NodeUse is a place in edges that declares or names a node.
type NodeUse struct {
	Node int
	At   *spec.Node
}

// A GraphEdge is an edge and its place: its target, or its route in {from_node, to_node,
// route}. Single is that mapping, which may have several routes, and nil in a chain.
type GraphEdge struct {
	runtime.Edge
	At, Single *spec.Node
}

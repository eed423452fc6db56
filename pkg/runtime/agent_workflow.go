package runtime

import (
	"context"
	"fmt"

	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// Start is the From of a workflow's first edges.
const Start = -1

// The conditions of an [Edge].
const (
	EdgeAlways  EdgeKind = iota // always followed
	EdgeRoute                   // followed when the node's route matches
	EdgeDefault                 // followed when no other node route matches
)

// An EdgeKind is the condition under which an edge is followed.
type EdgeKind int

// An Edge connects two workflow nodes.
type Edge struct {
	// From and To are indexes into the node list; From may be [Start].
	From, To int
	Kind     EdgeKind
	// Route is the value that an EdgeRoute matches: a string, an int64 or a bool. It matches an
	// event's route by value and type, and anything else as text.
	Route any
	// By computes the value to match; nil uses the route that the node set, or
	// else its output. Edges with the same expression share the pointer.
	By *template.Expr
}

// WorkflowOptions define a workflow.
type WorkflowOptions struct {
	Description string
	Nodes       []Agent
	Edges       []Edge
	// MaxConcurrency is 0 for no limit.
	MaxConcurrency int
	// InputSchema checks the workflow's input, and has its parameters when it is called as a tool;
	// nil accepts any input. A message's text is JSON then.
	InputSchema *tool.Schema
}

// A Workflow runs its nodes along its edges: a node runs when one of its predecessors has ended, a
// [JoinNode] when all have. After a fork each path runs on its own branch. A node may run many
// times; the run ends when no node is left to run. The workflow's output is the output of the node
// without edges; more than one such node with an output is an error (adk-python
// workflow/_workflow.py).
type Workflow struct {
	Base
	edges          [][]Edge
	predecessors   []int
	maxConcurrency int
	input          *tool.Schema
}

// NewWorkflow returns a workflow. It fails when an edge refers to a missing node or has a route
// with another type.
func NewWorkflow(name string, opts *WorkflowOptions) (*Workflow, error) {
	w := &Workflow{
		Base:  Base{AgentName: name, AgentDescription: opts.Description, Children: opts.Nodes},
		edges: make([][]Edge, len(opts.Nodes)+1), predecessors: make([]int, len(opts.Nodes)), maxConcurrency: opts.MaxConcurrency,
		input: opts.InputSchema,
	}
	seen := map[[2]int]bool{}
	for _, e := range opts.Edges {
		if e.From < Start || e.From >= len(opts.Nodes) || e.To < 0 || e.To >= len(opts.Nodes) {
			return nil, fmt.Errorf("workflow %s: edge from %d to %d is out of range: there are %d nodes", name, e.From, e.To, len(opts.Nodes))
		}
		switch e.Route.(type) {
		case nil, string, int64, bool:
		default:
			return nil, fmt.Errorf("workflow %s: the route of an edge must be a string, an int64 or a bool, got %T", name, e.Route)
		}
		if l, ok := opts.Nodes[e.To].(*LLMAgent); ok && l.opts.Mode == ModeChat && e.From != Start {
			return nil, fmt.Errorf("workflow %s: node %s cannot have the mode chat: only nodes that directly follow START can", name, l.AgentName)
		}
		w.edges[e.From+1] = append(w.edges[e.From+1], e)
		if pair := [2]int{e.From, e.To}; !seen[pair] {
			seen[pair] = true
			w.predecessors[e.To]++
		}
	}
	return w, nil
}

// A JoinNode is a [Workflow] node that waits for all its predecessors. It yields one event with
// their outputs by name, whose author is the workflow.
type JoinNode struct{ Base }

// NewJoin returns a join node.
func NewJoin(name, description string) *JoinNode {
	return &JoinNode{Base{AgentName: name, AgentDescription: description}}
}

// Run yields the node's input as its output.
func (j *JoinNode) Run(ctx context.Context, inv *Invocation) Events { return streamEvents(ctx, j, inv) }

func (j *JoinNode) run(_ context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	if inv.frame != nil && inv.frame.prior.lastEvent() != nil {
		return true
	}
	ev := inv.NewEvent()
	ev.Output = session.Normalize(inv.Input())
	return yield(ev, nil)
}

// checkJoin rejects a join outside a workflow.
func checkJoin(agent Agent, parent *node) error {
	if _, ok := agent.(*JoinNode); !ok {
		return nil
	}
	if parent != nil {
		if _, ok := parent.agent.(*Workflow); ok {
			return nil
		}
	}
	return fmt.Errorf("JoinNode %s must be a node of a Workflow", agent.Name())
}

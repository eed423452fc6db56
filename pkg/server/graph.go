package server

import (
	"net/http"

	"agenthost/pkg/runtime"
)

// Response bodies of build_graph. The keys are adk-python's
// (cli/utils/graph_serialization.py).
type (
	graphBody struct {
		Name         string                      `json:"name"`
		RootAgent    *nodeBody                   `json:"root_agent"`
		Resumability *resumabilityBody           `json:"resumability_config,omitempty"`
		ContextCache *runtime.ContextCacheConfig `json:"context_cache_config,omitempty"`
		Readme       string                      `json:"readme,omitempty"`
	}
	resumabilityBody struct {
		IsResumable bool `json:"is_resumable"`
	}
	nodeBody struct {
		Name            string      `json:"name"`
		Type            string      `json:"type"`
		AgentClass      string      `json:"agent_class,omitempty"`
		Description     string      `json:"description,omitempty"`
		Model           string      `json:"model,omitempty"`
		Instruction     string      `json:"instruction,omitempty"`
		OutputKey       string      `json:"output_key,omitempty"`
		IncludeContents string      `json:"include_contents,omitempty"`
		MaxIterations   int         `json:"max_iterations,omitempty"`
		SubAgents       []*nodeBody `json:"sub_agents,omitempty"`
		Tools           []nodeBody  `json:"tools,omitempty"`
		Graph           *edgesBody  `json:"graph,omitempty"`
	}
	edgesBody struct {
		Nodes []*nodeBody `json:"nodes"`
		Edges []edgeBody  `json:"edges"`
	}
	edgeBody struct {
		From  nodeBody `json:"from_node"`
		To    nodeBody `json:"to_node"`
		Route string   `json:"route,omitempty"`
	}
)

// startNode is ADK's name for the start of a workflow.
const startNode = "__START__"

// handleBuildGraph describes the structure of an app and includes its README.md.
func (s *Server) handleBuildGraph(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	body := graphBody{
		Name: app.Name, RootAgent: newNodeBody(app.AgentInfo()), ContextCache: app.ContextCache,
		Readme: s.readReadme(app.Name),
	}
	if app.Resumable {
		body.Resumability = &resumabilityBody{true}
	}
	return writeJSON(w, body)
}

func newNodeBody(p *runtime.AgentInfo) *nodeBody {
	n := &nodeBody{
		Name: p.Name, Type: nodeType(p), AgentClass: p.Kind, Description: p.Description, Model: p.Model, Instruction: p.Instruction,
		OutputKey: p.OutputKey, IncludeContents: string(p.IncludeContents), MaxIterations: p.MaxIterations,
	}
	for _, t := range p.Tools {
		n.Tools = append(n.Tools, nodeBody{Name: t.Declaration.Name, Type: "tool"})
	}
	var children []*nodeBody
	for _, child := range p.Agents {
		children = append(children, newNodeBody(child))
	}
	if p.Kind == "Workflow" {
		n.Graph = newEdgesBody(p, children)
	} else {
		n.SubAgents = children
	}
	return n
}

// nodeType returns ADK's type name of a node.
func nodeType(p *runtime.AgentInfo) string {
	switch p.Kind {
	case "Workflow":
		return "workflow"
	case "FunctionNode":
		return "function"
	case "ToolNode":
		return "tool"
	case "JoinNode":
		return "join"
	}
	return "agent"
}

func newEdgesBody(p *runtime.AgentInfo, nodes []*nodeBody) *edgesBody {
	start := &nodeBody{Name: startNode, Type: "start"}
	g := &edgesBody{Nodes: append([]*nodeBody{start}, nodes...), Edges: []edgeBody{}}
	end := func(i int) nodeBody {
		n := g.Nodes[i+1]
		return nodeBody{Name: n.Name, Type: n.Type}
	}
	for _, e := range p.Edges {
		g.Edges = append(g.Edges, edgeBody{end(e.From), end(e.To), edgeRoute(e)})
	}
	return g
}

func edgeRoute(e runtime.Edge) string {
	if e.Kind == runtime.EdgeDefault {
		return "default"
	}
	return e.Route
}

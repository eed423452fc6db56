package devui

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"agenthost/internal/appfolder"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// Response bodies for build_graph. The keys are adk-python's
// (cli/utils/graph_serialization.py).
type (
	graphBody struct {
		Name         string            `json:"name"`
		RootAgent    *nodeBody         `json:"root_agent"`
		Resumability *resumabilityBody `json:"resumability_config,omitempty"`
		ContextCache *contextCacheBody `json:"context_cache_config,omitempty"`
		Readme       string            `json:"readme,omitempty"`
	}
	resumabilityBody struct {
		IsResumable bool `json:"is_resumable"`
	}
	contextCacheBody struct {
		MinTokens      int `json:"min_tokens"`
		TTLSeconds     int `json:"ttl_seconds"`
		CacheIntervals int `json:"cache_intervals"`
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
		MaxIterations   *int        `json:"max_iterations,omitempty"`
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

// handleBuildGraph describes an app's structure and includes its README.md.
func (s *handlers) handleBuildGraph(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	body := graphBody{Name: app.Name(), RootAgent: newNodeBody(app.AgentInfo())}
	if text, err := appfolder.ReadFile(s.opts.Folders, app.Name(), "README.md"); err == nil {
		body.Readme = string(text)
	}
	if c := app.ContextCache(); c != nil {
		body.ContextCache = &contextCacheBody{c.MinTokens, int(c.TTL.Seconds()), c.Intervals}
	}
	if app.Resumable() {
		body.Resumability = &resumabilityBody{true}
	}
	return server.WriteJSON(w, body)
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

// nodeType returns ADK's type name for a node.
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

// A dotBody is a drawing in Graphviz's DOT language.
type dotBody struct {
	DotSrc string `json:"dotSrc"`
}

// handleGraph draws the whole app.
func (s *handlers) handleGraph(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	dark, err := server.ReadQueryFlag(r, "dark_mode")
	if err != nil {
		return err
	}
	return server.WriteJSON(w, dotBody{renderDOT(app.AgentInfo(), graphPalette(dark))})
}

// handleGraphImages returns a drawing for each agent with sub-agents by its path, and for the
// requested one as dotSrc. ADK's web client reads either form.
func (s *handlers) handleGraphImages(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	dark, err := server.ReadQueryFlag(r, "dark_mode")
	if err != nil {
		return err
	}
	root, colors := app.AgentInfo(), graphPalette(dark)
	requested := findAgent(root, r.URL.Query().Get("node"))
	if requested == nil {
		return server.NewError(http.StatusNotFound, "Node not found: "+r.URL.Query().Get("node"))
	}
	images := map[string]any{"dotSrc": renderDOT(requested, colors), "": dotBody{renderDOT(root, colors)}}
	addImages(images, root, root.Name, colors)
	return server.WriteJSON(w, images)
}

// addImages adds drawings for the agents below p. Paths start with the root's name.
func addImages(images map[string]any, p *runtime.AgentInfo, path string, colors palette) {
	for _, child := range p.Agents {
		if len(child.Agents) > 0 {
			images[path+"/"+child.Name] = dotBody{renderDOT(child, colors)}
			addImages(images, child, path+"/"+child.Name, colors)
		}
	}
}

// findAgent returns the agent at a path below the root. The path may start with the root's
// name, and its steps may have the form that events use, such as worker@2.
func findAgent(root *runtime.AgentInfo, path string) *runtime.AgentInfo {
	p := root
	for i, step := range strings.Split(path, "/") {
		name, _, _ := strings.Cut(step, "@")
		if name == "" || i == 0 && name == root.Name {
			continue
		}
		at := slices.IndexFunc(p.Agents, func(child *runtime.AgentInfo) bool { return child.Name == name })
		if at < 0 {
			return nil
		}
		p = p.Agents[at]
	}
	return p
}

// handleEventGraph draws the app and highlights an event. As in adk-python, the
// response is an empty object if the session or the event does not exist.
func (s *handlers) handleEventGraph(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	sess, err := s.Host().Store().Sessions.Get(r.Context(), server.PathKey(r), nil)
	if errors.Is(err, session.ErrNotFound) {
		return server.WriteJSON(w, struct{}{})
	}
	if err != nil {
		return err
	}
	for _, ev := range sess.Events() {
		if ev.ID == r.PathValue("event") {
			return server.WriteJSON(w, dotBody{renderDOT(app.AgentInfo(), eventPalette(), eventHighlights(ev)...)})
		}
	}
	return server.WriteJSON(w, struct{}{})
}

// eventHighlights returns the edges that an event took (adk-python cli/dev_server.py).
func eventHighlights(ev *session.Event) []highlight {
	var highlights []highlight
	for _, c := range ev.Calls() {
		if !runtime.IsRequest(ev, c) {
			highlights = append(highlights, highlight{ev.Author, c.Name})
		}
	}
	for _, resp := range ev.Responses() {
		highlights = append(highlights, highlight{resp.Name, ev.Author})
	}
	if len(highlights) == 0 {
		highlights = []highlight{{from: ev.NodeName()}}
	}
	return highlights
}

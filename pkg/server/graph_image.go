package server

import (
	"errors"
	"net/http"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A dotBody is a drawing in Graphviz's language.
type dotBody struct {
	DotSrc string `json:"dotSrc"`
}

// handleGraph draws the whole app.
func (s *Server) handleGraph(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	dark, err := readQueryFlag(r, "dark_mode")
	if err != nil {
		return err
	}
	return writeJSON(w, dotBody{renderDOT(app.AgentInfo(), graphPalette(dark))})
}

// handleGraphImages draws each agent that has others below it, by its path, and
// under dotSrc the one that is asked for: ADK's web client reads either.
func (s *Server) handleGraphImages(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	dark, err := readQueryFlag(r, "dark_mode")
	if err != nil {
		return err
	}
	root, colours := app.AgentInfo(), graphPalette(dark)
	asked := findAgent(root, r.URL.Query().Get("node"))
	if asked == nil {
		return notFoundError("Node not found: " + r.URL.Query().Get("node"))
	}
	images := map[string]any{"dotSrc": renderDOT(asked, colours), "": dotBody{renderDOT(root, colours)}}
	addImages(images, root, root.Name, colours)
	return writeJSON(w, images)
}

// addImages draws what is below the root, by paths that begin with its name.
func addImages(images map[string]any, p *runtime.AgentInfo, path string, colours palette) {
	for _, child := range p.Agents {
		if len(child.Agents) > 0 {
			images[path+"/"+child.Name] = dotBody{renderDOT(child, colours)}
			addImages(images, child, path+"/"+child.Name, colours)
		}
	}
}

// findAgent is the agent at a path below the root, whose own name may stand first. The
// steps may be those of events, such as worker@2.
func findAgent(root *runtime.AgentInfo, path string) *runtime.AgentInfo {
	p := root
	for i, step := range strings.Split(path, "/") {
		name, _, _ := strings.Cut(step, "@")
		if name == "" || i == 0 && name == root.Name {
			continue
		}
		if p = findChild(p, name); p == nil {
			return nil
		}
	}
	return p
}

func findChild(p *runtime.AgentInfo, name string) *runtime.AgentInfo {
	for _, child := range p.Agents {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// handleEventGraph draws the app with the way of an event marked. As in
// adk-python, the answer is empty when there is no such session or event.
func (s *Server) handleEventGraph(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	sess, err := s.host.Store().Sessions.Get(r.Context(), pathKey(r), nil)
	if errors.Is(err, session.ErrNotFound) {
		return writeJSON(w, struct{}{})
	}
	if err != nil {
		return err
	}
	for _, ev := range sess.Events() {
		if ev.ID == r.PathValue("event") {
			return writeJSON(w, dotBody{renderDOT(app.AgentInfo(), eventPalette(), eventHighlights(ev)...)})
		}
	}
	return writeJSON(w, struct{}{})
}

// eventHighlights are the ways that an event went (adk-python cli/dev_server.py).
func eventHighlights(ev *session.Event) []highlight {
	var ways []highlight
	for _, c := range ev.Calls() {
		ways = append(ways, highlight{ev.Author, c.Name})
	}
	for _, resp := range ev.Responses() {
		ways = append(ways, highlight{resp.Name, ev.Author})
	}
	if len(ways) == 0 {
		ways = []highlight{{from: ev.Author}}
	}
	return ways
}

package server

import (
	"errors"
	"net/http"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A dotBody is a drawing in Graphviz's DOT language.
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

// handleGraphImages returns a drawing of each agent with sub-agents by its path, and of
// the requested one as dotSrc. ADK's web client reads either form.
func (s *Server) handleGraphImages(w http.ResponseWriter, r *http.Request) error {
	app, err := s.findApp(r)
	if err != nil {
		return err
	}
	dark, err := readQueryFlag(r, "dark_mode")
	if err != nil {
		return err
	}
	root, colors := app.AgentInfo(), graphPalette(dark)
	requested := findAgent(root, r.URL.Query().Get("node"))
	if requested == nil {
		return notFoundError("Node not found: " + r.URL.Query().Get("node"))
	}
	images := map[string]any{"dotSrc": renderDOT(requested, colors), "": dotBody{renderDOT(root, colors)}}
	addImages(images, root, root.Name, colors)
	return writeJSON(w, images)
}

// addImages adds drawings of the agents below p. Paths start with the name of the root.
func addImages(images map[string]any, p *runtime.AgentInfo, path string, colors palette) {
	for _, child := range p.Agents {
		if len(child.Agents) > 0 {
			images[path+"/"+child.Name] = dotBody{renderDOT(child, colors)}
			addImages(images, child, path+"/"+child.Name, colors)
		}
	}
}

// findAgent returns the agent at a path below the root. The path may start with the
// name of the root, and its steps may be those of events, such as worker@2.
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

// handleEventGraph draws the app and highlights an event. As in adk-python, the
// response is an empty object if the session or the event does not exist.
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

// eventHighlights returns the edges that an event took (adk-python cli/dev_server.py).
func eventHighlights(ev *session.Event) []highlight {
	var highlights []highlight
	for _, c := range ev.Calls() {
		highlights = append(highlights, highlight{ev.Author, c.Name})
	}
	for _, resp := range ev.Responses() {
		highlights = append(highlights, highlight{resp.Name, ev.Author})
	}
	if len(highlights) == 0 {
		highlights = []highlight{{from: ev.Author}}
	}
	return highlights
}

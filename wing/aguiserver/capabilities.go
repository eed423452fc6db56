package aguiserver

import (
	"net/http"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// capabilities are what an endpoint can do (AgentCapabilities).
type capabilities struct {
	Identity   identity        `json:"identity"`
	Transport  map[string]bool `json:"transport"`
	Tools      map[string]bool `json:"tools"`
	State      map[string]bool `json:"state"`
	MultiAgent multiAgent      `json:"multiAgent"`
	Reasoning  map[string]bool `json:"reasoning"`
	Multimodal multimodal      `json:"multimodal"`
	Human      map[string]bool `json:"humanInTheLoop"`
}

type identity struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version,omitempty"`
}

type multiAgent struct {
	Supported bool        `json:"supported"`
	Subagents []agentInfo `json:"subagents,omitempty"`
}

type agentInfo struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

type multimodal struct {
	Input map[string]bool `json:"input"`
}

// handleCapabilities describes an endpoint. It names no agents besides those that the app offers, and no
// tools.
func (h *handlers) handleCapabilities(w http.ResponseWriter, r *http.Request) error {
	e, err := h.openEndpoint(r)
	if err != nil {
		return err
	}
	s := e.settings
	c := &capabilities{
		Identity:   identity{e.app.Name(), "agenthost", e.app.Description(), h.Version()},
		Transport:  map[string]bool{"streaming": true, "websocket": false, "httpBinary": false, "pushNotifications": false, "resumable": false},
		Tools:      map[string]bool{"supported": true, "clientProvided": s.Tools},
		State:      map[string]bool{"snapshots": true, "deltas": true, "persistentState": true},
		Reasoning:  map[string]bool{"supported": s.Reasoning, "streaming": s.Reasoning, "encrypted": false},
		Multimodal: multimodal{map[string]bool{"image": true, "audio": true, "video": true, "pdf": true, "file": true}},
		Human:      map[string]bool{"supported": true, "approvals": true, "feedback": true, "interrupts": true, "approveWithEdits": true},
	}
	c.MultiAgent.Supported = len(s.Agents) > 0
	for _, name := range s.Agents {
		c.MultiAgent.Subagents = append(c.MultiAgent.Subagents, agentInfo{name, describeAgent(e.app, name)})
	}
	if e.agent != "" {
		c.Identity.Name, c.Identity.Description = e.agent, describeAgent(e.app, e.agent)
		c.MultiAgent = multiAgent{}
	}
	return server.WriteJSON(w, c)
}

func describeAgent(app *runtime.App, name string) string {
	if a := app.Agent(name); a != nil {
		return a.Description()
	}
	return ""
}

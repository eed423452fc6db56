package aguiserver

import (
	"cmp"
	"net/http"
	"slices"

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
	Supported bool `json:"supported"`
	// Delegation is set for agents whose runs return to the agent above, and Handoffs for transfers.
	Delegation bool        `json:"delegation,omitempty"`
	Handoffs   bool        `json:"handoffs,omitempty"`
	Subagents  []agentInfo `json:"subagents,omitempty"`
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
		Reasoning:  map[string]bool{"supported": s.Reasoning, "streaming": s.Reasoning, "encrypted": s.Reasoning},
		Multimodal: multimodal{map[string]bool{"image": true, "audio": true, "video": true, "pdf": true, "file": true}},
		Human:      map[string]bool{"supported": true, "approvals": true, "feedback": true, "interrupts": true, "approveWithEdits": true},
	}
	c.MultiAgent = describeTeam(e.app.AgentInfo().Find(cmp.Or(e.agent, e.app.Root().Name())))
	c.MultiAgent.Supported = c.MultiAgent.Supported || len(s.Agents) > 0 && e.agent == ""
	for _, name := range s.Agents {
		c.MultiAgent.Subagents = append(c.MultiAgent.Subagents, agentInfo{name, describeAgent(e.app, name)})
	}
	if e.agent != "" {
		c.Identity.Name, c.Identity.Description = e.agent, describeAgent(e.app, e.agent)
		c.MultiAgent.Subagents = nil
	}
	return server.WriteJSON(w, c)
}

// describeTeam reports how an agent and those below it work together.
func describeTeam(info *runtime.AgentInfo) multiAgent {
	team := multiAgent{}
	if info == nil {
		return team
	}
	isModel := info.Kind == "LlmAgent"
	team.Handoffs = isModel && len(info.Agents) > 0
	team.Delegation = !isModel && len(info.Agents) > 0 || slices.ContainsFunc(info.Tools, func(one runtime.ToolInfo) bool { return one.Agent != nil })
	for _, below := range info.Agents {
		one := describeTeam(below)
		team.Handoffs, team.Delegation = team.Handoffs || one.Handoffs, team.Delegation || one.Delegation
	}
	team.Supported = team.Handoffs || team.Delegation
	return team
}

func describeAgent(app *runtime.App, name string) string {
	if a := app.Agent(name); a != nil {
		return a.Description()
	}
	return ""
}

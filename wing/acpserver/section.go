package acpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"agenthost/pkg/loader"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
)

// sectionKey is the key in app.yaml, and the rule of its problems.
const sectionKey = "acp_server"

// Section returns the kind of acp_server in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "What the app offers to editors, which start it with the command acp. See [acp.md](acp.md).",
		func(_ context.Context, env loader.SectionEnv, c *sectionConfig) (any, error) {
			return c.buildSettings(env.Root)
		})
}

// sectionConfig is acp_server.
type sectionConfig struct {
	Agents []string `yaml:"agents" doc:"Agents that a person can choose as the editor's mode, besides the root agent; at most 64. They are in the agent tree, and neither a workflow's node nor called as a tool."`
}

const maxAgents = 64

// Check reports values that are not in their range, at their position in n, the mapping that the
// config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	if len(c.Agents) > maxAgents {
		return spec.Diagnostics{n.Get("agents").Errorf(sectionKey, "agents exceeds the limit of %d, got %d", maxAgents, len(c.Agents))}
	}
	for i, name := range c.Agents {
		if slices.Contains(c.Agents[:i], name) {
			return spec.Diagnostics{n.Get("agents").Items[i].Errorf(sectionKey, "duplicate agent %q", name)}
		}
	}
	return nil
}

// Settings are what an app offers to editors.
type Settings struct {
	// Agents are the modes besides the root agent.
	Agents []string
}

func (c *sectionConfig) buildSettings(root runtime.Agent) (*Settings, error) {
	for _, name := range c.Agents {
		if protocol.FindAgent(root, name) == nil {
			return nil, fmt.Errorf("agent %q not found in the agent tree, or it is a workflow's node", name)
		}
	}
	return &Settings{c.Agents}, nil
}

// A sessionMode is an agent as a client shows it.
type sessionMode struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

type modeState struct {
	Current   string        `json:"currentModeId"`
	Available []sessionMode `json:"availableModes"`
}

// describeModes returns the app's modes; nil for an app with one agent to choose. current is the
// mode, or empty for the root agent.
func (a *agent) describeModes(current string) *modeState {
	settings, app := a.readSettings()
	if settings == nil || len(settings.Agents) == 0 {
		return nil
	}
	root := app.Root()
	state := &modeState{Current: root.Name()}
	for _, name := range append([]string{root.Name()}, settings.Agents...) {
		one := protocol.FindAgent(root, name)
		if one == nil || slices.ContainsFunc(state.Available, func(m sessionMode) bool { return m.ID == name }) {
			continue
		}
		state.Available = append(state.Available, sessionMode{name, name, one.Description()})
		if name == current {
			state.Current = name
		}
	}
	return state
}

// Extend returns a server extension that describes ACP. It has no route: editors start the command acp.
func Extend() func(*server.Services) *server.Extension {
	return func(*server.Services) *server.Extension { return &server.Extension{DescribeProtocol: describeProtocol} }
}

// describeProtocol describes ACP to a person who adds an agent to an editor.
func describeProtocol(_ string, app *runtime.App) server.Protocol {
	entry := struct {
		Type    string   `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}{"custom", "agenthost", []string{"acp", "APPDIR"}}
	text, _ := json.MarshalIndent(map[string]any{"agent_servers": map[string]any{app.Name(): entry}}, "", "  ") // strings cannot fail
	return server.Protocol{Name: "ACP", Offered: true, Address: "agenthost acp APPDIR", Snippets: []server.Snippet{
		{Client: "acpx", Language: "sh", Text: "acpx --agent \"agenthost acp APPDIR\" exec hello\n"},
		{Client: "Zed (settings.json)", Language: "json", Text: string(text) + "\n"},
	}}
}

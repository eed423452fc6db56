package aguiserver

import (
	"context"
	"fmt"
	"strings"

	"agenthost/pkg/loader"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// sectionKey is the key in app.yaml, and the rule in its problems.
const sectionKey = "agui_server"

// Section returns the kind for agui_server in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "Serves the app to AG-UI clients, such as CopilotKit, at /apps/APP/ag-ui; an empty mapping serves the root agent. See [ag-ui.md](ag-ui.md).",
		func(_ context.Context, env loader.SectionEnv, c *sectionConfig) (any, error) {
			return c.buildSettings(env.Root)
		})
}

// sectionConfig is agui_server.
type sectionConfig struct {
	Agents       []string `yaml:"agents" doc:"Agents that have a route of their own, /apps/APP/ag-ui/agents/AGENT; at most 64. They are in the agent tree, and neither a workflow's node nor called as a tool."`
	Instructions bool     `yaml:"client_instructions" doc:"Accept clients' context and system messages, as the state key temp:client_instructions: an instruction inserts them with {temp:client_instructions?}. Otherwise they are ignored."`
	State        []string `yaml:"client_state" doc:"State keys that clients may write with the state in their requests; at most 64. Keys with the prefix app:, user: or temp: cannot be written. Default: clients' state is ignored."`
	Tools        bool     `yaml:"client_tools" doc:"Let clients add tools to a run, which they run themselves: the app's agents may call them. Otherwise such a request is an error."`
	Reasoning    bool     `yaml:"reasoning" default:"true" doc:"Send models' thoughts as reasoning."`
}

// Limits for agui_server.
const (
	maxAgents = 64
	maxKeys   = 64
)

// Check reports values that are not in their range, at their position in n, the mapping that the
// config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if len(c.Agents) > maxAgents {
		ds = append(ds, n.Get("agents").Errorf(sectionKey, "agents exceeds the limit of %d, got %d", maxAgents, len(c.Agents)))
	}
	if len(c.State) > maxKeys {
		return append(ds, n.Get("client_state").Errorf(sectionKey, "client_state exceeds the limit of %d, got %d", maxKeys, len(c.State)))
	}
	for i, key := range c.State {
		if scope, _ := session.ScopeOf(key); scope != session.ScopeSession || !isVisible(key) || strings.TrimSpace(key) == "" {
			ds = append(ds, n.Get("client_state").Items[i].Errorf(sectionKey, "clients cannot write the state key %q: use a key of the session, without a prefix", key))
		}
	}
	return ds
}

// Settings are what an app offers to AG-UI clients.
type Settings struct {
	// Agents are the agents with a route, besides the root.
	Agents []string
	// Instructions accepts clients' context and system messages.
	Instructions bool
	// State are the keys that clients may write.
	State []string
	// Tools accepts clients' tools.
	Tools bool
	// Reasoning sends thoughts.
	Reasoning bool
}

func (c *sectionConfig) buildSettings(root runtime.Agent) (*Settings, error) {
	for _, name := range c.Agents {
		if protocol.FindAgent(root, name) == nil {
			return nil, fmt.Errorf("agent %q not found in the agent tree, or it is a workflow's node", name)
		}
	}
	return &Settings{c.Agents, c.Instructions, c.State, c.Tools, c.Reasoning}, nil
}

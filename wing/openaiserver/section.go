package openaiserver

import (
	"context"
	"fmt"

	"agenthost/pkg/loader"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// sectionKey is the key in app.yaml, and the rule of its problems.
const sectionKey = "openai_server"

// Section returns the kind of openai_server in app.yaml.
func Section() spec.Kind[loader.SectionEnv, any] {
	return spec.NewKind(sectionKey, "Serves the app to clients of OpenAI's API at /v1; an empty mapping offers the root agent as the model with the app's name. See [openai-server.md](openai-server.md).",
		func(_ context.Context, env loader.SectionEnv, c *sectionConfig) (any, error) {
			return c.buildSettings(env.Root)
		})
}

// sectionConfig is openai_server.
type sectionConfig struct {
	Agents       []string `yaml:"agents" doc:"Agents that are models of their own, with the name APP/AGENT; at most 64. They are in the agent tree, and neither a workflow's node nor called as a tool."`
	Instructions bool     `yaml:"client_instructions" doc:"Accept the system messages of clients, as the state key temp:client_instructions: an instruction inserts them with {temp:client_instructions?}. Otherwise they are ignored."`
	Tools        bool     `yaml:"client_tools" doc:"Let clients add tools to a request, which they run themselves: the app's agents may call them. Otherwise such a request is an error."`
	Reasoning    bool     `yaml:"reasoning" default:"true" doc:"Send the thoughts of models as reasoning_content."`
}

const maxAgents = 64

// Check reports values that are not in their range, at their position in n, the mapping that the
// config was decoded from.
func (c *sectionConfig) Check(n *spec.Node) spec.Diagnostics {
	if len(c.Agents) > maxAgents {
		return spec.Diagnostics{n.Get("agents").Errorf(sectionKey, "agents exceeds the limit of %d, got %d", maxAgents, len(c.Agents))}
	}
	return nil
}

// Settings are what an app offers to OpenAI's clients.
type Settings struct {
	// Agents are the agents that are models, besides the root.
	Agents []string
	// Instructions accepts clients' system messages.
	Instructions bool
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
	return &Settings{c.Agents, c.Instructions, c.Tools, c.Reasoning}, nil
}

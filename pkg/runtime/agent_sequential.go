package runtime

import (
	"context"

	"agenthost/pkg/session"
)

// sequentialConfig is the YAML of a SequentialAgent.
type sequentialConfig struct {
	Common CommonConfig `yaml:",inline"`
}

func (c *sequentialConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

func newSequential(_ context.Context, env AgentEnv, c *sequentialConfig) (Agent, error) {
	return NewSequential(c.Common.Name.Value, c.Common.Description, env.SubAgents...), nil
}

// A SequentialAgent runs its sub-agents one after the other. That one of them
// escalates does not stop it (adk-python agents/sequential_agent.py).
type SequentialAgent struct{ Base }

// NewSequential makes a sequential agent.
func NewSequential(name, description string, subs ...Agent) *SequentialAgent {
	return &SequentialAgent{Base{AgentName: name, AgentDescription: description, Children: subs}}
}

// Run runs the sub-agents in order.
func (a *SequentialAgent) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		for i := range a.Children {
			if _, ok := forward(inv.RunChild(ctx, i), yield); !ok {
				return
			}
		}
	}
}

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

// A SequentialAgent runs its sub-agents one after the other. Escalation of a
// sub-agent does not stop it (adk-python agents/sequential_agent.py).
type SequentialAgent struct{ Base }

// NewSequential returns a sequential agent.
func NewSequential(name, description string, subs ...Agent) *SequentialAgent {
	return &SequentialAgent{Base{AgentName: name, AgentDescription: description, Children: subs}}
}

// Run runs the sub-agents in order. A resumed run continues with the sub-agent
// that was running.
func (a *SequentialAgent) Run(ctx context.Context, inv *Invocation) Events {
	return streamEvents(ctx, a, inv)
}

func (a *SequentialAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	from, marked, err := inv.readCurrentChild()
	if err != nil {
		yield(nil, err)
		return false
	}
	for i := from; i < len(a.Children) && !inv.Paused(); i++ {
		marked = marked && i == from
		if inv.Resumable() && !marked && !yield(inv.Checkpoint(map[string]any{currentSubAgentKey: a.Children[i].Name()}), nil) {
			return false
		}
		child := inv.childInvocation(i, 1)
		child.endsRun = i == len(a.Children)-1 && inv.endsRun && inv.endsWithAgent()
		if !child.runAgent(ctx, yield) {
			return false
		}
	}
	return true
}

package runtime

import (
	"context"

	"agenthost/pkg/session"
)

// parallelConfig is the YAML of a ParallelAgent.
type parallelConfig struct {
	Common CommonConfig `yaml:",inline"`
}

func (c *parallelConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

func newParallel(_ context.Context, env AgentEnv, c *parallelConfig) (Agent, error) {
	return NewParallel(c.Common.Name.Value, c.Common.Description, env.SubAgents...), nil
}

// A ParallelAgent runs its sub-agents side by side, each on its own branch, so
// that they do not see each other's events. It ends when all have ended; the
// first failure stops the others.
type ParallelAgent struct{ Base }

// NewParallel makes a parallel agent.
func NewParallel(name, description string, subs ...Agent) *ParallelAgent {
	return &ParallelAgent{Base{AgentName: name, AgentDescription: description, Children: subs}}
}

// Run yields the events of all sub-agents as they arrive. Each sub-agent waits
// until its event is stored and seen.
func (a *ParallelAgent) Run(ctx context.Context, inv *Invocation) Events {
	return eventsOf(ctx, a, inv)
}

func (a *ParallelAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	if inv.Resumable() && inv.AgentState() == nil && !yield(inv.Checkpoint(map[string]any{}), nil) {
		return false
	}
	inner, cancel := context.WithCancel(ctx)
	sides := make([]side, len(inv.node.children))
	// There is room for what each has to hand over: an event or its end.
	arrivals, running := make(chan *side, len(sides)), len(sides)
	defer func() { // nobody hears what is said from now on
		for cancel(); running > 0; {
			if s := <-arrivals; s.ended {
				running--
			} else {
				s.answer(false)
			}
		}
	}()
	for i, child := range inv.node.children {
		s, branch := &sides[i], inv.enter(child, inv.subBranch(child), 1)
		s.to = arrivals
		go func() {
			growStack()
			branch.runAgent(inner, s.pass)
			s.end()
		}()
	}
	for running > 0 {
		switch s := <-arrivals; {
		case s.ended:
			running--
		case !s.show(yield):
			return false
		}
	}
	if err := ctx.Err(); err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return true
}

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
	defer cancel()
	sides := make([]side, len(inv.node.children))
	// There is room for what each has to hand over: an event or its end.
	arrivals := make(chan *side, len(sides))
	for i, child := range inv.node.children {
		s, branch := &sides[i], inv.enter(child, inv.subBranch(child), 1)
		s.to = arrivals
		go func() {
			growStack()
			branch.runAgent(inner, s.pass)
			s.end()
		}()
	}
	running, goOn := len(sides), true
	for running > 0 {
		s := <-arrivals
		if s.ended {
			running--
			continue
		}
		if goOn && (!yield(s.ev, s.err) || s.err != nil) {
			goOn = false
			cancel()
		}
		s.answer(goOn)
	}
	if err := ctx.Err(); goOn && err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return goOn
}

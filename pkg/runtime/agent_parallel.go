package runtime

import (
	"context"
	goruntime "runtime"
	"sync/atomic"

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
	type parallel struct {
		side
		inv Invocation
	}
	sides := make([]parallel, len(inv.node.children))
	// There is room for an event of each. Who is the last to end closes it.
	arrivals := make(chan *side, len(sides))
	var running atomic.Int64
	end := func() {
		if running.Add(-1) == 0 {
			close(arrivals)
		}
	}
	defer func() { // nobody hears what is said from now on
		cancel()
		for s := range arrivals {
			s.answer(false)
		}
	}()
	running.Store(int64(len(sides)) + 1)
	for i, child := range inv.node.children {
		s := &sides[i]
		s.to = arrivals
		inv.enterAs(&s.inv, child, inv.subBranch(child), 1)
		go func() {
			growStack(false)
			s.inv.runAgent(inner, s.pass)
			end()
		}()
	}
	end()
	// Those that are quick have then arrived together: each that is waited for by
	// itself costs two more switches.
	goruntime.Gosched()
	for s := range arrivals {
		if !s.show(yield) {
			return false
		}
	}
	if err := ctx.Err(); err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return true
}

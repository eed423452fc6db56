package runtime

import (
	"context"
	"sync"

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

// An arrival is an event of a sub-agent on its way to the consumer; the zero
// value is a sub-agent's end. The sub-agent goes on when it hears of seen.
type arrival struct {
	ev   *session.Event
	err  error
	seen chan<- struct{}
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
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	running := len(inv.node.children)
	// There is room for an event and the end of each, so that nobody waits to
	// hand over.
	arrivals := make(chan arrival, 2*running)
	for _, child := range inv.node.children {
		branch := inv.enter(child, inv.subBranch(child), 1)
		wg.Go(func() {
			branch.runAgent(inner, passing(inner, arrivals))
			arrivals <- arrival{}
		})
	}
	for running > 0 {
		arr := <-arrivals
		if arr.seen == nil {
			running--
			continue
		}
		if !yield(arr.ev, arr.err) || arr.err != nil {
			return false
		}
		arr.seen <- struct{}{}
	}
	if err := ctx.Err(); err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return true
}

// passing hands events to a consumer, each when the one before was seen, until
// the context ends.
func passing(ctx context.Context, to chan<- arrival) func(*session.Event, error) bool {
	done, seen := ctx.Done(), make(chan struct{}, 1)
	return func(ev *session.Event, err error) bool {
		select {
		case to <- arrival{ev, err, seen}:
		case <-done:
			return false
		}
		select {
		case <-seen:
			return true
		case <-done:
			return false
		}
	}
}

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

// arrival is an event of a sub-agent on its way to the consumer. The sub-agent
// goes on when seen is closed.
type arrival struct {
	ev   *session.Event
	err  error
	seen chan struct{}
}

// Run yields the events of all sub-agents as they arrive. Each sub-agent waits
// until its event is stored and seen.
func (a *ParallelAgent) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		if inv.Resumable() && inv.AgentState() == nil && !yield(inv.Checkpoint(map[string]any{}), nil) {
			return
		}
		inner, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		arrivals := make(chan arrival)
		ended := make(chan struct{}, len(inv.node.children))
		for _, child := range inv.node.children {
			branch := inv.enter(child, inv.subBranch(child), 1)
			wg.Go(func() {
				branch.send(inner, arrivals)
				ended <- struct{}{}
			})
		}
		for running := len(inv.node.children); running > 0; {
			select {
			case <-ended:
				running--
			case arr := <-arrivals:
				if !yield(arr.ev, arr.err) || arr.err != nil {
					return
				}
				close(arr.seen)
			}
		}
		if ctx.Err() != nil {
			yield(nil, AsRunError(ctx.Err()))
		}
	}
}

// send passes the agent's events on, one at a time.
func (inv *Invocation) send(ctx context.Context, to chan<- arrival) {
	pass(ctx, inv.runAgent(ctx), to)
}

// pass sends events to a consumer, each when the one before was seen.
func pass(ctx context.Context, events Events, to chan<- arrival) {
	for ev, err := range events {
		arr := arrival{ev, err, make(chan struct{})}
		select {
		case to <- arr:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
		select {
		case <-arr.seen:
		case <-ctx.Done():
			return
		}
	}
}

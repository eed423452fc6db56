package runtime

import (
	"context"
	goruntime "runtime"

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
// value is a sub-agent's end. The sub-agent goes on, or does not, when it hears
// so of seen.
type arrival struct {
	ev   *session.Event
	err  error
	seen chan<- bool
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
	// There is room for what each has to hand over: an event or its end.
	running := len(inv.node.children)
	arrivals := make(chan arrival, running)
	for _, child := range inv.node.children {
		branch := inv.enter(child, inv.subBranch(child), 1)
		go func() {
			growStack()
			branch.runAgent(inner, passing(arrivals))
			arrivals <- arrival{}
		}()
	}
	goOn := true
	for running > 0 {
		arr := <-arrivals
		if arr.seen == nil {
			running--
			continue
		}
		if goOn && (!yield(arr.ev, arr.err) || arr.err != nil) {
			goOn = false
			cancel()
		}
		arr.seen <- goOn
	}
	if err := ctx.Err(); goOn && err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return goOn
}

// passing hands events to a consumer, each when the one before was seen. The
// consumer answers to each, also when it wants no more.
func passing(to chan<- arrival) func(*session.Event, error) bool {
	seen := make(chan bool, 1)
	return func(ev *session.Event, err error) bool {
		to <- arrival{ev, err, seen}
		return <-seen
	}
}

// growStack makes room for an agent's run while the stack of a new goroutine is
// empty. Later it would be copied twice, with all that stands on it.
//
//go:noinline
func growStack() {
	var room [6 << 10]byte
	goruntime.KeepAlive(&room)
}

package runtime

import (
	"context"
	goruntime "runtime"
	"sync/atomic"

	"agenthost/internal/safe"
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
	return streamEvents(ctx, a, inv)
}

func (a *ParallelAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	if inv.Resumable() && inv.AgentState() == nil && !yield(inv.Checkpoint(map[string]any{}), nil) {
		return false
	}
	inner, cancel := context.WithCancel(ctx)
	p := newParallelRun(inv)
	defer func() { // nobody hears what is said from now on
		cancel()
		for s := range p.events {
			s.acknowledgeEvent(false)
		}
	}()
	p.startChildren(inner, 0)
	// Those that are quick have then arrived together: each that is waited for by
	// itself costs two more switches.
	goruntime.Gosched()
	for s := range p.events {
		if !s.deliverEvent(yield) {
			return false
		}
	}
	if err := ctx.Err(); err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return true
}

// parallelRun is one run of a parallel agent.
type parallelRun struct {
	children []parallelChild
	running  atomic.Int64
	// events has room for an event of each side. Who is the last to end closes it.
	events chan *eventHandoff
}

type parallelChild struct {
	eventHandoff
	inv Invocation
}

func newParallelRun(inv *Invocation) *parallelRun {
	children := inv.node.children
	p := &parallelRun{children: make([]parallelChild, len(children)), events: make(chan *eventHandoff, len(children))}
	for i, child := range children {
		s := &p.children[i]
		s.out = p.events
		inv.initChildInvocation(&s.inv, child, inv.subBranch(child), 1)
	}
	p.running.Store(int64(len(children)))
	if len(children) == 0 {
		close(p.events)
	}
	return p
}

// startChildren has the sides run from the ith on. Each starts the next one before it does
// anything itself, so that only one at a time is there to be taken by another
// processor: those that are quick run one after the other where they were started.
func (p *parallelRun) startChildren(ctx context.Context, i int) {
	if i == len(p.children) {
		return
	}
	go func() {
		defer p.markChildDone()
		defer safe.Recover(p.children[i].reportPanic)
		growStack(false)
		p.startChildren(ctx, i+1)
		s := &p.children[i]
		s.inv.runAgent(ctx, s.sendEvent)
	}()
}

// reportPanic makes a panic that nothing below has recovered the failure of the
// agent: its consumer gets it like any other.
func (s *parallelChild) reportPanic(p *safe.Panic) { s.sendEvent(nil, s.inv.panicFailure(p)) }

// markChildDone says that a side has ended.
func (p *parallelRun) markChildDone() {
	if p.running.Add(-1) == 0 {
		close(p.events)
	}
}

package runtime

import (
	"context"
	"sync/atomic"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// A SequentialAgent runs its sub-agents one after the other. A sub-agent's escalation does not stop
// it (adk-python agents/sequential_agent.py).
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
		if i == len(a.Children)-1 {
			child.onLastEvent = inv.passLastEvent()
		}
		if !child.runAgent(ctx, yield) {
			return false
		}
	}
	return true
}

// A ParallelAgent runs its sub-agents concurrently, each on its own branch, so
// that they do not see each other's events. It ends when all have ended; the
// first failure or escalation cancels the others.
type ParallelAgent struct{ Base }

// NewParallel returns a parallel agent.
func NewParallel(name, description string, subs ...Agent) *ParallelAgent {
	return &ParallelAgent{Base{AgentName: name, AgentDescription: description, Children: subs}}
}

// Run yields all sub-agents' events as they arrive. Each sub-agent waits until its event is stored
// and consumed.
func (a *ParallelAgent) Run(ctx context.Context, inv *Invocation) Events {
	return streamEvents(ctx, a, inv)
}

func (a *ParallelAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	if inv.Resumable() && inv.AgentState() == nil && !yield(inv.Checkpoint(map[string]any{}), nil) {
		return false
	}
	inner, cancel := context.WithCancel(ctx)
	p := newParallelRun(inv)
	defer func() { // events sent from now on are dropped
		cancel()
		for s := range p.events {
			s.acknowledgeEvent(false)
		}
	}()
	for i := range p.children {
		s := &p.children[i]
		go func() {
			defer func() {
				if p.running.Add(-1) == 0 {
					close(p.events)
				}
			}()
			defer safe.Recover(func(p *safe.Panic) { s.sendEvent(nil, s.inv.panicFailure(p)) })
			s.inv.runAgent(inner, s.sendEvent)
		}()
	}
	for s := range p.events {
		escalated := s.ev != nil && s.ev.Actions.Escalate
		if !s.deliverEvent(yield) {
			return false
		}
		if escalated { // as in adk-python since 2.8
			return true
		}
	}
	if err := ctx.Err(); err != nil {
		yield(nil, AsRunError(err))
		return false
	}
	return true
}

// parallelRun is a parallel agent's run.
type parallelRun struct {
	children []parallelChild
	running  atomic.Int64
	// events has capacity for one event from each child. The last child to end closes it.
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
		branch := child.branch // as in adk-python agents/parallel_agent.py
		if inv.branch != "" {
			branch = inv.branch + "." + child.branch
		}
		inv.initChildInvocation(&s.inv, child, branch, 1)
	}
	p.running.Store(int64(len(children)))
	if len(children) == 0 {
		close(p.events)
	}
	return p
}

package runtime

import (
	"context"
	"strconv"

	"agenthost/pkg/session"
)

// LoopOptions are a loop agent's optional settings.
type LoopOptions struct {
	Description string
	// MaxIterations is nil for no limit; 0 runs no sub-agent.
	MaxIterations *int
	// Until ends the loop when it is true after a sub-agent; nil never does.
	Until     *Condition
	SubAgents []Agent
	Callbacks Callbacks
}

// A LoopAgent runs its sub-agents in order, repeatedly, until one of them escalates, its condition
// is true, or it reaches the maximum number of iterations.
type LoopAgent struct {
	Base
	opts LoopOptions
}

// NewLoop returns a loop agent; opts may be nil.
func NewLoop(name string, opts *LoopOptions) *LoopAgent {
	if opts == nil {
		opts = &LoopOptions{}
	}
	base := Base{AgentName: name, AgentDescription: opts.Description, Children: opts.SubAgents, Callbacks: opts.Callbacks}
	return &LoopAgent{base, *opts}
}

// Run runs the loop. A sub-agent that escalates finishes its step first; the
// rest of the iteration is skipped (adk-python agents/loop_agent.py).
func (a *LoopAgent) Run(ctx context.Context, inv *Invocation) Events {
	return streamEvents(ctx, a, inv)
}

func (a *LoopAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	if len(a.Children) == 0 {
		return true
	}
	from, marked, err := inv.readCurrentChild()
	first := 0
	if err == nil {
		first, err = inv.readTimesLooped()
	}
	if err != nil {
		yield(nil, err)
		return false
	}
	for n := first; a.opts.MaxIterations == nil || n < *a.opts.MaxIterations; n++ {
		// Sub-agents that do nothing do not check the context.
		if ctx.Err() != nil {
			yield(nil, AsRunError(ctx.Err()))
			return false
		}
		round := &loopIteration{loop: a, inv: inv, n: n, yield: yield}
		if n == first && marked {
			round.from, round.checkpointed = from, true
		}
		if again, ok := round.run(ctx); !again {
			return ok
		}
	}
	return true
}

// loopIteration is one iteration.
type loopIteration struct {
	loop *LoopAgent
	inv  *Invocation
	n    int
	// from is the sub-agent at which a resumed iteration continues; checkpointed reports whether
	// that sub-agent's checkpoint is already stored.
	from         int
	checkpointed bool
	yield        func(*session.Event, error) bool

	seen, skips int
	escalated   bool
}

// run runs each sub-agent once. It returns whether another iteration follows,
// and whether the run continues. No iteration follows one in which all
// sub-agents were skipped, because it would have the same result.
func (r *loopIteration) run(ctx context.Context) (again, ok bool) {
	record := func(ev *session.Event, err error) bool {
		if ev != nil {
			r.recordEvent(ev)
		}
		return r.yield(ev, err)
	}
	for i, sub := range r.loop.Children {
		if r.inv.frame != nil { // before the invocation was resumed
			for _, ev := range r.inv.run.record.eventsUnder(r.inv.childPath(sub.Name(), strconv.Itoa(r.n+1))) {
				r.recordEvent(ev)
			}
		}
		if i < r.from {
			continue
		}
		if r.inv.Resumable() && !(r.checkpointed && i == r.from) {
			next := map[string]any{currentSubAgentKey: sub.Name(), timesLoopedKey: r.n}
			if !r.yield(r.inv.Checkpoint(next), nil) {
				return false, false
			}
		}
		if !r.inv.childInvocation(i, r.n+1).runAgent(ctx, record) {
			return false, false
		}
		if r.escalated || r.inv.Paused() {
			return false, true
		}
		if until := r.loop.opts.Until; until != nil {
			done, err := until.evaluateFor(ctx, r.inv, "until")
			if err != nil {
				r.yield(nil, err)
				return false, false
			}
			if done {
				return false, true
			}
		}
	}
	return r.seen == 0 || r.skips < r.seen, true
}

func (r *loopIteration) recordEvent(ev *session.Event) {
	if ev.Actions.EndOfAgent || ev.Actions.AgentState != nil {
		return
	}
	r.escalated = r.escalated || ev.Actions.Escalate
	if r.seen++; isSkip(ev) {
		r.skips++
	}
}

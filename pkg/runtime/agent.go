package runtime

import (
	"context"
	"iter"

	"agenthost/pkg/session"
)

// An Agent is a node of an app's tree that can run. Implementations do not
// change once built; many runs use them at once.
type Agent interface {
	// Name is unique among its siblings, an identifier, and not "user".
	Name() string
	// Description tells other agents what this one is for.
	Description() string
	// SubAgents are its children in order.
	SubAgents() []Agent
	// Run yields the agent's events. Each is stored and seen before the agent
	// goes on; an error ends the run. When yield returns false the agent
	// returns at once, without another yield.
	Run(ctx context.Context, inv *Invocation) Events
}

// Events is the stream of a run: events as they happen, or an error that ends it.
type Events = iter.Seq2[*session.Event, error]

// A Base holds what all agents have. Agents embed it.
type Base struct {
	AgentName        string
	AgentDescription string
	Children         []Agent
	// Callbacks are asked before and after the agent. They are set before the
	// agent becomes part of an app.
	Callbacks Callbacks

	when *Condition
}

func (b *Base) agentCallbacks() *Callbacks { return &b.Callbacks }

// Name returns the agent's name.
func (b *Base) Name() string { return b.AgentName }

// Description returns what the agent is for.
func (b *Base) Description() string { return b.AgentDescription }

// SubAgents returns the children.
func (b *Base) SubAgents() []Agent { return b.Children }

// A builtinAgent is an agent of this package. Events go straight from one to the
// next that it is a part of: a sequence at every level of the tree would make
// several functions for each agent.
type builtinAgent interface {
	// run gives the agent's events to yield, and says whether the run goes on:
	// it does unless an error was yielded, or yield was false.
	run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool
}

// streamEvents are the events of an agent as a sequence.
func streamEvents(ctx context.Context, a builtinAgent, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) { a.run(ctx, inv, yield) }
}

// forwardEvents gives the events of a sequence to yield, and says whether the run
// goes on.
func forwardEvents(events Events, yield func(*session.Event, error) bool) bool {
	for ev, err := range events {
		if err != nil {
			yield(nil, err)
			return false
		}
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}

package runtime

import (
	"context"
	"iter"

	"agenthost/pkg/session"
)

// An Agent is a node in the agent tree of an app. It is immutable once built,
// and many runs use it concurrently.
type Agent interface {
	// Name is unique among its siblings, an identifier, and not "user".
	Name() string
	// Description describes the agent for agents that can transfer to it.
	Description() string
	// SubAgents returns the children in order.
	SubAgents() []Agent
	// Run yields the agent's events. Each event is stored and consumed before
	// the agent continues. An error ends the run. When yield returns false,
	// the agent must return without calling yield again.
	Run(ctx context.Context, inv *Invocation) Events
}

// Events is the event stream of a run. An error ends it.
type Events = iter.Seq2[*session.Event, error]

// A Base holds the fields that all agents have. Agents embed it.
type Base struct {
	AgentName        string
	AgentDescription string
	Children         []Agent
	// Callbacks run before and after the agent. Set them before the agent
	// becomes part of an app.
	Callbacks Callbacks

	when *Condition
}

func (b *Base) agentCallbacks() *Callbacks { return &b.Callbacks }

// Name returns the agent's name.
func (b *Base) Name() string { return b.AgentName }

// Description returns what the agent does.
func (b *Base) Description() string { return b.AgentDescription }

// SubAgents returns the children.
func (b *Base) SubAgents() []Agent { return b.Children }

// A builtinAgent is an agent of this package. It passes its events directly to
// the yield function of its parent: an iterator at every level of the tree
// would allocate several closures for each agent.
type builtinAgent interface {
	// run passes the agent's events to yield. It returns false after it
	// yielded an error or yield returned false.
	run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool
}

// streamEvents returns the events of an agent as an iterator.
func streamEvents(ctx context.Context, a builtinAgent, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) { a.run(ctx, inv, yield) }
}

// forwardEvents passes the events of an iterator to yield. It returns false
// when the run is over.
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

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

func (b *Base) callbacks() *Callbacks { return &b.Callbacks }

// Name returns the agent's name.
func (b *Base) Name() string { return b.AgentName }

// Description returns what the agent is for.
func (b *Base) Description() string { return b.AgentDescription }

// SubAgents returns the children.
func (b *Base) SubAgents() []Agent { return b.Children }

// forward yields all events of a sub-agent's run. It returns the last event
// and false when the run must not go on.
func forward(events Events, yield func(*session.Event, error) bool) (last *session.Event, ok bool) {
	for ev, err := range events {
		if err != nil {
			yield(nil, err)
			return last, false
		}
		if !yield(ev, nil) {
			return last, false
		}
		last = ev
	}
	return last, true
}

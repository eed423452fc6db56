package conformance

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/session"
)

// orderPatience is how long an answer waits for the events that were recorded before its own. A
// recorded event that never comes delays the message only once: the rest is replayed without an
// order.
const orderPatience = 5 * time.Second

// An eventOrder is the order in which a message's events were recorded. Answers wait for it, so
// that parallel agents store their events as they were recorded, whichever agent is faster.
type eventOrder struct {
	mu sync.Mutex
	// pending are the recorded events that are not stored yet.
	pending []recordedEvent
	// changed is closed and replaced when an event is stored.
	changed chan struct{}
}

type recordedEvent struct{ author, branch string }

// newEventOrder returns the order for the events that follow a user message. A session that cannot
// be read has none; its comparison reports why.
func newEventOrder(recorded map[string]any, message int) *eventOrder {
	o := &eventOrder{changed: make(chan struct{})}
	events, err := normalizeEvents(recorded)
	if err != nil {
		return o
	}
	for at, messages := 0, 0; at < len(events) && messages <= message+1; at++ {
		author, _ := events[at]["author"].(string)
		branch, _ := events[at]["branch"].(string)
		switch {
		case author == session.UserAuthor && events[at]["content"] != nil:
			messages++
		case messages == message+1:
			o.pending = append(o.pending, recordedEvent{author, branch})
		}
	}
	return o
}

// markStored removes an event from those that are pending.
func (o *eventOrder) markStored(ev *session.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.pending, recordedEvent{ev.Author, ev.Branch}); i >= 0 && !ev.Partial {
		o.pending = slices.Delete(o.pending, i, i+1)
		o.announceChange()
	}
}

func (o *eventOrder) announceChange() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// waitForTurn waits until all events are stored that were recorded before an agent's next event,
// and belong to agents that run in parallel to it.
func (o *eventOrder) waitForTurn(ctx context.Context, agent string) {
	patience := time.NewTimer(orderPatience)
	defer patience.Stop()
	for {
		changed, ready := o.isTurn(agent)
		if ready {
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			o.abandonOrder()
		case <-ctx.Done():
			return
		}
	}
}

// isTurn reports whether an agent's next event may be stored; changed is closed when it may have
// changed.
func (o *eventOrder) isTurn(agent string) (changed <-chan struct{}, ready bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := slices.IndexFunc(o.pending, func(e recordedEvent) bool { return e.author == agent })
	if next < 0 {
		return o.changed, true
	}
	branch := o.pending[next].branch
	return o.changed, !slices.ContainsFunc(o.pending[:next], func(e recordedEvent) bool { return areParallel(e.branch, branch) })
}

func (o *eventOrder) abandonOrder() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pending = nil
	o.announceChange()
}

// areParallel reports whether the agents on two branches run in parallel. An agent without a
// branch, or with a branch that contains the other one, runs before or after.
func areParallel(a, b string) bool {
	return a != "" && b != "" && a != b && !strings.HasPrefix(a, b+".") && !strings.HasPrefix(b, a+".")
}

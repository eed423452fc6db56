package runtime

import (
	"context"
	"maps"
	"sync"

	"agenthost/pkg/session"
)

// A callOrder makes the calls of one answer of a model see each other's state. In ADK a
// tool writes the state of the session at once, so the next call of the answer reads it.
// Here the writes of all calls are committed together, with the event of their results;
// until then a call reads those of the earlier calls of its answer that have ended. Writes
// are read and committed by the same merge in the order of the calls, so both are equal.
//
// Calls may overlap. These rules keep what counts and collects in the state right:
//   - a call begins after the callbacks before the tool of the earlier calls have ended;
//   - it begins after the end of earlier calls whose tools declare that they write state;
//   - callbacks after a tool, or for its error, begin after the end of all earlier calls.
//
// A call only waits for earlier ones, which began before, so no two wait for each other.
type callOrder struct {
	mu    sync.Mutex
	turns []*callTurn
}

// A callTurn is the turn of one call. A nil turn is that of a call without others.
type callTurn struct {
	order *callOrder
	index int
	// begun is closed when the next call may begin, ended when this one has ended.
	begun, ended chan struct{}
	// writes are the published state writes; the lock of the order guards them.
	writes *callWrites
}

// callWrites are state writes of a call. Keys that the call read after an earlier call had
// written them are replaced: their values include what the earlier call wrote. Others are
// merged as ADK merges the actions of parallel calls.
type callWrites struct {
	actions  session.Actions
	replaced map[string]bool
}

func newCallOrder(calls int) *callOrder {
	o := &callOrder{turns: make([]*callTurn, calls)}
	for i := range o.turns {
		o.turns[i] = &callTurn{order: o, index: i, begun: make(chan struct{}), ended: make(chan struct{})}
	}
	return o
}

// waitToBegin waits until the call may begin.
func (t *callTurn) waitToBegin(ctx context.Context) error {
	if t == nil || t.index == 0 {
		return nil
	}
	return waitClosed(ctx, t.order.turns[t.index-1].begun)
}

// allowNext publishes the writes of a call that still runs, and lets the next call begin.
func (t *callTurn) allowNext(s *callState) {
	if t != nil {
		t.publishWrites(s.copyWrites(), t.begun)
	}
}

// waitForEarlier waits until all earlier calls have ended, or the run is canceled.
func (t *callTurn) waitForEarlier(ctx context.Context) {
	if t == nil {
		return
	}
	for _, earlier := range t.order.turns[:t.index] {
		if waitClosed(ctx, earlier.ended) != nil {
			return
		}
	}
}

// endCall publishes the writes that the results of the call will commit: none, if it has no
// result now. It lets later calls begin.
func (t *callTurn) endCall(a *callResult) {
	if t == nil {
		return
	}
	var writes *callWrites
	if a != nil && a.part != nil && a.state != nil {
		writes = a.state.copyWrites()
	}
	t.publishWrites(writes, t.begun, t.ended)
}

func (t *callTurn) publishWrites(writes *callWrites, done ...chan struct{}) {
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	t.writes = writes
	for _, c := range done {
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

// earlierWrites returns the merged published writes of the earlier calls.
func (t *callTurn) earlierWrites() *session.Actions {
	merged := &session.Actions{}
	if t == nil {
		return merged
	}
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	for _, earlier := range t.order.turns[:t.index] {
		if earlier.writes != nil {
			mergeCallActions(merged, &earlier.writes.actions, earlier.writes.replaced)
		}
	}
	return merged
}

// mergeCallActions adds the actions of a later call of the answer.
func mergeCallActions(merged, later *session.Actions, replaced map[string]bool) {
	for key := range replaced {
		if _, written := later.StateDelta[key]; written {
			delete(merged.StateDelta, key)
		}
	}
	merged.Merge(later)
}

// replacedKeys returns the keys whose values include what earlier calls wrote to them.
func (a *callResult) replacedKeys() map[string]bool {
	if a.state == nil {
		return nil
	}
	a.state.mu.Lock()
	defer a.state.mu.Unlock()
	return maps.Clone(a.state.replaced)
}

func waitClosed(ctx context.Context, c chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

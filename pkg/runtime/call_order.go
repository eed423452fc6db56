package runtime

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"

	"agenthost/pkg/session"
)

// A callOrder makes the calls in one model answer see each other's state. In ADK a tool writes the
// session state at once, so the next call in the answer reads it. Here all calls' writes are
// committed together, with the event that has their results; until then a call reads the writes of
// earlier calls in its answer that have ended. Writes are read and committed by the same merge in
// call order, so both are equal.
//
// Calls may overlap. These rules keep what counts and collects in the state right:
//   - a call begins after the earlier calls' before-tool callbacks have ended;
//   - it begins after earlier calls have ended whose tools declare that they write state;
//   - callbacks after a tool, or for its error, begin after all earlier calls have ended.
//
// A call only waits for earlier ones, which began before, so no two wait for each other.
type callOrder struct {
	mu    sync.Mutex
	turns []*callTurn
	// ended counts the ended calls before which no call still runs.
	ended int
	// keys are the writes to each state key, so that a read merges only those of its key.
	keys map[string]*keyWrites
}

// A callTurn is one call's turn. A call without others has a nil turn.
type callTurn struct {
	order *callOrder
	index int
	// begun is closed when the next call may begin, ended when this one has ended.
	begun, ended chan struct{}
	// hasEnded and writes, the published state writes, are guarded by the order's lock.
	hasEnded bool
	writes   *callWrites
}

// callWrites are a call's state writes, by key. Keys that the call read after an earlier call had
// written them are replaced: their values include what the earlier call wrote. Others are merged as
// ADK merges parallel calls' actions.
type callWrites struct {
	keys     map[string]*session.Actions
	replaced map[string]bool
}

// keyWrites are one key's writes by the calls in an answer. Ended calls' writes are merged only
// once: calls that end one after the other cost the same each.
type keyWrites struct {
	// calls are the sorted indexes of the calls that published writes to the key.
	calls []int
	// merged are the writes of the first calls, as many as settled; these have ended.
	merged  session.Actions
	settled int
	// value is that after the first merged updates, as many as applied, from the value base.
	base, value any
	applied     int
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

// allowNext publishes a running call's writes, and lets the next call begin.
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
	t.order.mu.Lock()
	ended := min(t.order.ended, t.index)
	t.order.mu.Unlock()
	for _, earlier := range t.order.turns[ended:t.index] {
		if waitClosed(ctx, earlier.ended) != nil {
			return
		}
	}
}

// endCall publishes the writes that the call's results will commit: none, if it has no result now.
// It lets later calls begin.
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
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	t.writes = writes
	if writes != nil {
		for key := range writes.keys {
			o.addWriter(key, t.index)
		}
	}
	for _, c := range done {
		select {
		case <-c:
		default:
			close(c)
		}
		t.hasEnded = t.hasEnded || c == t.ended
	}
	for o.ended < len(o.turns) && o.turns[o.ended].hasEnded {
		o.ended++
	}
}

// addWriter adds a call to those that write a key. The caller holds the lock.
func (o *callOrder) addWriter(key string, call int) {
	if o.keys == nil {
		o.keys = map[string]*keyWrites{}
	}
	k := o.keys[key]
	if k == nil {
		k = &keyWrites{}
		o.keys[key] = k
	}
	if at, found := slices.BinarySearch(k.calls, call); !found {
		k.calls = slices.Insert(k.calls, at, call)
	}
}

// earlierKeys returns the keys that earlier calls have written.
func (t *callTurn) earlierKeys() []string {
	if t == nil {
		return nil
	}
	t.order.mu.Lock()
	defer t.order.mu.Unlock()
	var keys []string
	for key, k := range t.order.keys {
		if k.calls[0] < t.index {
			keys = append(keys, key)
		}
	}
	return keys
}

// earlierValue returns the value of a key after the published writes of the earlier calls, given
// its value old before them, as [session.Actions.Updated] does. isSet reports that one of them set
// it, and did not only update it.
func (t *callTurn) earlierValue(key string, old any) (v any, written, isSet bool, err error) {
	if t == nil {
		return old, false, false, nil
	}
	o := t.order
	o.mu.Lock()
	defer o.mu.Unlock()
	k := o.keys[key]
	if k == nil {
		return old, false, false, nil
	}
	if t.index < o.ended { // the call has ended, and its tool still reads
		k = &keyWrites{calls: k.calls}
	} else {
		k.mergeEnded(o, key)
	}
	return k.computeValue(o, t.index, key, old)
}

// mergeEnded merges the writes by calls that have ended. The caller holds the lock.
func (k *keyWrites) mergeEnded(o *callOrder, key string) {
	for ; k.settled < len(k.calls) && k.calls[k.settled] < o.ended; k.settled++ {
		w := o.turns[k.calls[k.settled]].writes
		if w == nil || w.keys[key] == nil {
			continue
		}
		if len(w.keys[key].StateDelta) > 0 {
			k.base, k.value, k.applied = nil, nil, 0
		}
		mergeCallActions(&k.merged, w.keys[key], w.replaced)
	}
}

// computeValue returns the value after the settled writes, and other calls' writes before index.
func (k *keyWrites) computeValue(o *callOrder, index int, key string, old any) (v any, written, isSet bool, err error) {
	later, sets := session.Actions{}, false
	for _, i := range k.calls[k.settled:] {
		if i >= index {
			break
		}
		if w := o.turns[i].writes; w != nil && w.keys[key] != nil {
			if len(w.keys[key].StateDelta) > 0 && !sets {
				later.StateDelta, sets = maps.Clone(k.merged.StateDelta), true
			}
			mergeCallActions(&later, w.keys[key], w.replaced)
		}
	}
	_, isSet = k.merged.StateDelta[key]
	if v = old; !sets {
		if v, err = k.settledValue(key, old); err != nil {
			return nil, true, isSet, err
		}
	}
	written = isSet || len(k.merged.StateUpdates) > 0
	v, more, err := later.Updated(key, v)
	return v, written || more, isSet || sets, err
}

// settledValue returns the value after the settled writes.
func (k *keyWrites) settledValue(key string, old any) (v any, err error) {
	if k.applied == 0 || !reflect.DeepEqual(k.base, old) {
		k.base, k.value, k.applied = old, old, 0
		if set, ok := k.merged.StateDelta[key]; ok {
			k.value = set
		}
	}
	for ; k.applied < len(k.merged.StateUpdates); k.applied++ {
		u := &k.merged.StateUpdates[k.applied]
		if v, err = u.Apply(k.value); err != nil {
			return nil, err
		}
		k.value = v
	}
	return k.value, nil
}

// mergeCallActions adds a later call's actions in the answer.
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

package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"agenthost/internal/codec"
	"agenthost/internal/limit"
	"agenthost/pkg/session"
)

// A StateWrite writes one state key; a nil value deletes the key. The key includes its prefix.
type StateWrite struct {
	Key   string
	Scope session.Scope
	Value any
}

// SplitState converts a canonical delta to cells, without temp: keys. All
// writers use the same order, which prevents deadlocks.
func SplitState(delta map[string]any) []StateWrite {
	if len(delta) == 0 {
		return nil
	}
	cells := make([]StateWrite, 0, len(delta))
	for k, v := range delta {
		if scope, _ := session.ScopeOf(k); scope != session.ScopeTemp {
			cells = append(cells, StateWrite{k, scope, v})
		}
	}
	slices.SortFunc(cells, func(a, b StateWrite) int { return cmp.Compare(a.Key, b.Key) })
	return cells
}

// SessionState returns the session-scope cells' values.
func SessionState(cells []StateWrite) map[string]any {
	own := map[string]any{}
	for _, c := range cells {
		if c.Scope == session.ScopeSession && c.Value != nil {
			own[c.Key] = c.Value
		}
	}
	return own
}

// A SharedUpdate changes one key whose new value depends on the stored one. The steps are applied
// in order.
type SharedUpdate struct {
	Key   string
	Scope session.Scope
	Steps []session.StateUpdate
}

// applySteps returns the canonical new value for the value old.
func (u *SharedUpdate) applySteps(old any) (any, error) {
	for i := range u.Steps {
		var err error
		if old, err = u.Steps[i].Apply(old); err != nil {
			return nil, err
		}
	}
	value, err := codec.CanonicalizeState(map[string]any{u.Key: old})
	return value[u.Key], err
}

// resolveLocalUpdates computes the updates for keys that only this session writes, and returns the
// delta with their results. It returns the updates for shared keys uncomputed. A session key's
// value comes from sess, which is safe because the append fails if the session has changed.
func resolveLocalUpdates(sess *session.Session, actions *session.Actions, delta map[string]any) (map[string]any, []SharedUpdate, error) {
	if len(actions.StateUpdates) == 0 {
		return delta, nil, nil
	}
	settled := maps.Clone(delta)
	if settled == nil {
		settled = map[string]any{}
	}
	var shared []SharedUpdate
	for _, key := range actions.UpdatedKeys() {
		if err := codec.CheckText("state key", key, codec.MaxKey); err != nil {
			return nil, nil, err
		}
		u := SharedUpdate{Key: key}
		u.Scope, _ = session.ScopeOf(key)
		for _, step := range actions.StateUpdates {
			if step.Key == key {
				u.Steps = append(u.Steps, step)
			}
		}
		old, set := delta[key]
		switch {
		case set:
		case u.Scope == session.ScopeSession || u.Scope == session.ScopeTemp:
			old, _ = sess.State.Get(key)
		default:
			shared = append(shared, u)
			continue
		}
		v, err := u.applySteps(old)
		if err != nil {
			return nil, nil, err
		}
		settled[key] = v
	}
	return settled, shared, nil
}

// mergeResults returns the delta with the updates' results.
func mergeResults(delta, results map[string]any) map[string]any {
	all := make(map[string]any, len(delta)+len(results))
	maps.Copy(all, delta)
	maps.Copy(all, results)
	return all
}

// limits are the maximum sizes for a session's parts, in bytes. They are checked before each write
// against the session in memory, which has the current state and its events' total size.
type limits struct{ state, event, session int64 }

// appendLimits are the limits for one append.
type appendLimits struct {
	limits
	state *session.State
	delta map[string]any // of the event
	size  int64          // of the session's events so far
}

// encodeEvent writes an event's JSON into room unless it is too long.
func (b *appendLimits) encodeEvent(room []byte, ev *session.Event) ([]byte, error) {
	text, err := session.AppendEvent(room, ev)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, session.ErrInvalid)
	}
	n := int64(len(text))
	if n > b.event {
		return nil, &session.LimitError{Part: "event", Limit: b.event}
	}
	if tooMany, ok := errors.AsType[*limit.Error](limit.StoredEvent.CheckValues(text)); ok {
		return nil, &session.LimitError{Part: "event", Limit: int64(tooMany.Limit), Unit: tooMany.Unit}
	}
	if b.size+n > b.session {
		return nil, &session.LimitError{Part: "session", Limit: b.session, Hint: "start a new session"}
	}
	return text, nil
}

// checkDelta checks what the event's delta does to the state.
func (b *appendLimits) checkDelta() error {
	if len(b.delta) == 0 {
		return nil
	}
	return b.checkScopes(nil, b.stateGrowth())
}

// stateGrowth is by how much the delta makes each scope larger.
func (b *appendLimits) stateGrowth() *[session.ScopeTemp]int64 {
	var growth [session.ScopeTemp]int64
	for k, v := range b.delta {
		scope, _ := session.ScopeOf(k)
		if scope == session.ScopeTemp {
			continue
		}
		old, _ := b.state.Get(k)
		growth[scope] += session.EntrySize(k, v) - session.EntrySize(k, old)
	}
	return &growth
}

// checkUpdates checks what updates do to shared state, by the values before and
// after them. The rest of the state is what the session's reader has seen.
func (b *appendLimits) checkUpdates(before, after map[string]any) error {
	since, growth := *b.stateGrowth(), [session.ScopeTemp]int64{}
	for k, v := range after {
		scope, _ := session.ScopeOf(k)
		seen, _ := b.state.Get(k)
		was := session.EntrySize(k, before[k])
		since[scope] += was - session.EntrySize(k, seen)
		growth[scope] += session.EntrySize(k, v) - was
	}
	return b.checkScopes(&since, &growth)
}

// checkScopes refuses a scope that grows beyond the limit. One that is too large
// already may shrink.
func (b *appendLimits) checkScopes(since, growth *[session.ScopeTemp]int64) error {
	for scope, n := range growth {
		if n <= 0 {
			continue
		}
		size := b.state.Size(session.Scope(scope)) + n
		if since != nil {
			size += since[scope]
		}
		if size > b.limits.state {
			return &session.LimitError{Part: "state of the " + scopeName(session.Scope(scope)), Limit: b.limits.state}
		}
	}
	return nil
}

func scopeName(s session.Scope) string {
	switch s {
	case session.ScopeApp:
		return "app"
	case session.ScopeUser:
		return "user"
	default:
		return "session"
	}
}

package store

import (
	"maps"

	"agenthost/pkg/session"
)

// An update is the change of one key whose new value depends on the stored one.
// The steps are applied in order.
type update struct {
	key   string
	scope session.Scope
	steps []session.StateUpdate
}

// applySteps returns the canonical new value for the value old.
func (u *update) applySteps(old any) (any, error) {
	for i := range u.steps {
		var err error
		if old, err = u.steps[i].Apply(old); err != nil {
			return nil, err
		}
	}
	value, err := canonicalizeState(map[string]any{u.key: old})
	return value[u.key], err
}

// resolveLocalUpdates computes the updates of keys that only this session
// writes, and returns the delta with their results. It returns the updates of
// shared keys uncomputed. The value of a session key comes from sess, which is
// safe because the append fails if the session has changed.
func resolveLocalUpdates(sess *session.Session, actions *session.Actions, delta map[string]any) (map[string]any, []update, error) {
	if len(actions.StateUpdates) == 0 {
		return delta, nil, nil
	}
	settled := maps.Clone(delta)
	if settled == nil {
		settled = map[string]any{}
	}
	var shared []update
	for _, key := range actions.UpdatedKeys() {
		if err := checkText("state key", key, maxKey); err != nil {
			return nil, nil, err
		}
		u := update{key: key}
		u.scope, _ = session.ScopeOf(key)
		for _, step := range actions.StateUpdates {
			if step.Key == key {
				u.steps = append(u.steps, step)
			}
		}
		old, set := delta[key]
		switch {
		case set:
		case u.scope == session.ScopeSession || u.scope == session.ScopeTemp:
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

// mergeResults returns the delta with the results of updates.
func mergeResults(delta, results map[string]any) map[string]any {
	all := make(map[string]any, len(delta)+len(results))
	maps.Copy(all, delta)
	maps.Copy(all, results)
	return all
}

// computeUpdates computes the updates of a record from the current values. It returns the
// cells to write and the event's JSON; the event gets a new state delta with the
// results. Nothing has changed when it fails.
func (r *record) computeUpdates(ev *session.Event, current func(u *update) any) ([]cell, []byte, error) {
	before, after := map[string]any{}, map[string]any{}
	cells := make([]cell, len(r.updates))
	for i := range r.updates {
		u := &r.updates[i]
		old := current(u)
		v, err := u.applySteps(old)
		if err != nil {
			return nil, nil, err
		}
		before[u.key], after[u.key], cells[i] = old, v, cell{u.key, u.scope, v}
	}
	if err := r.limits.checkUpdates(before, after); err != nil {
		return nil, nil, err
	}
	ev.Actions.StateDelta = mergeResults(ev.Actions.StateDelta, after)
	text, err := r.limits.encodeEvent(nil, ev)
	return cells, text, err
}

package store

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"agenthost/pkg/store/internal/codec"

	"agenthost/pkg/session"
)

// Append stores an event and its state changes in one durable transaction. It
// then sets ev.Seq and updates the history, state, version and time of sess.
//
// Append generates a missing id and a missing time. Both stay set if the append
// fails, so that a retry appends the same event: an event whose id the session
// already has is not added again, and the append succeeds. Times are truncated to
// microseconds. A nil value in the state delta deletes its key. State updates
// are computed from the stored values in the same transaction, and the stored
// event has their results in its state delta; an update that cannot be computed
// is ErrInvalid.
//
// temp: keys are applied to sess.State only and are not stored. A partial event
// is not stored and changes nothing. An event with a Seq was stored before and
// is never changed: a copy of it is appended.
//
// Append fails with ErrStale if the session changed since sess was read, with
// ErrNotFound if the session was deleted, and with ErrInvalid if the event
// cannot be stored; an exceeded limit is a [session.LimitError]. It fails with
// ErrFenced, which is an ErrStale, if this store held the lease of the session
// and another store took it over. After an error, sess is unchanged.
func (s *Sessions) Append(ctx context.Context, sess *session.Session, ev *session.Event) error {
	if ev.Partial {
		return nil
	}
	e, err := s.cachedEntry(sess.Key)
	if err != nil {
		return err
	}
	delta, err := codec.CanonicalizeState(ev.Actions.StateDelta)
	if err != nil {
		return err
	}
	if ev, err = s.completeEvent(ev); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	epoch, err := s.leases.resolveEpoch(ctx, sess.Key)
	if err != nil {
		return err
	}
	delta, shared, err := resolveLocalUpdates(sess, &ev.Actions, delta)
	if err != nil {
		return err
	}
	given := ev.Actions
	ev.Actions.StateDelta, ev.Actions.StateUpdates = session.WithoutTemp(delta), nil
	// Set before the append: readers may see the event before AppendEvent returns.
	ev.Seq = sess.Version + 1
	rec := AppendRecord{Key: sess.Key, Version: sess.Version, Epoch: epoch, Event: ev, Writes: SplitState(ev.Actions.StateDelta), Updates: shared}
	if e != nil {
		rec.ID = e.id
	}
	at, err := s.writeRecord(ctx, sess, &rec)
	if err == nil && at.Seq > sess.Version+1 {
		err = SessionStale(sess.ID, sess.Version, at.Seq)
	}
	if errors.Is(err, session.ErrFenced) {
		s.leases.markLost(sess.Key, epoch)
	}
	if err != nil {
		ev.Actions, ev.Seq = given, 0
		return err
	}
	if len(shared) > 0 {
		delta = mergeResults(delta, ev.Actions.StateDelta)
	}
	if e != nil {
		e.recordEpoch(epoch)
	}
	if at.Seq <= sess.Version {
		ev.Seq = at.Seq // the session already had the event
		return nil
	}
	s.publishEvent(sess, e, StoredEvent{ev, at.Text, at.Cost})
	if len(delta) > 0 {
		sess.State.Apply(codec.CloneMap(delta))
	}
	return nil
}

// cachedEntry returns the cache entry of a session, or nil. A cached key is
// already validated.
func (s *Sessions) cachedEntry(key session.Key) (*cacheEntry, error) {
	if e := s.cache.get(key); e != nil {
		return e, nil
	}
	return nil, codec.CheckSession(key)
}

// completeEvent sets the id and the time of an event if they are missing, and
// validates its ids.
func (s *Sessions) completeEvent(ev *session.Event) (*session.Event, error) {
	if ev.Seq != 0 {
		c := *ev
		ev = &c
	}
	if ev.ID == "" {
		ev.ID = s.newID()
	}
	if ev.Timestamp.IsZero() {
		ev.Timestamp = s.clock()
	}
	ev.Timestamp = ev.Timestamp.UTC().Truncate(time.Microsecond)
	if err := codec.CheckText("invocation id", ev.InvocationID, codec.MaxID); err != nil {
		return ev, err
	}
	return ev, codec.CheckText("event id", ev.ID, codec.MaxID)
}

// publishEvent adds a durable event to the caller's session and to the cache
// entry, if there is one.
func (s *Sessions) publishEvent(sess *session.Session, e *cacheEntry, st StoredEvent) {
	if e != nil {
		s.cache.appendNew(e, []StoredEvent{st})
	}
	if e == nil || e.history != sess.History {
		sess.History.Append(st.Event)
		sess.History.AddBytes(st.Text)
	}
	sess.Version = st.Event.Seq
	sess.LastUpdate = st.Event.Timestamp
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

// A SharedUpdate is the change of one key whose new value depends on the stored one.
// The steps are applied in order.
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

// resolveLocalUpdates computes the updates of keys that only this session
// writes, and returns the delta with their results. It returns the updates of
// shared keys uncomputed. The value of a session key comes from sess, which is
// safe because the append fails if the session has changed.
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

// mergeResults returns the delta with the results of updates.
func mergeResults(delta, results map[string]any) map[string]any {
	all := make(map[string]any, len(delta)+len(results))
	maps.Copy(all, delta)
	maps.Copy(all, results)
	return all
}

// ComputeUpdates computes the updates of a record from the current values. It returns the
// cells to write and the event's JSON; the event gets a new state delta with the
// results. Nothing has changed when it fails.
func (r *AppendRecord) ComputeUpdates(ev *session.Event, current func(u *SharedUpdate) any) ([]StateWrite, []byte, error) {
	before, after := map[string]any{}, map[string]any{}
	cells := make([]StateWrite, len(r.Updates))
	for i := range r.Updates {
		u := &r.Updates[i]
		old := current(u)
		v, err := u.applySteps(old)
		if err != nil {
			return nil, nil, err
		}
		before[u.Key], after[u.Key], cells[i] = old, v, StateWrite{u.Key, u.Scope, v}
	}
	if err := r.limits.checkUpdates(before, after); err != nil {
		return nil, nil, err
	}
	ev.Actions.StateDelta = mergeResults(ev.Actions.StateDelta, after)
	text, err := r.limits.encodeEvent(nil, ev)
	return cells, text, err
}

// SessionState returns the values of the cells with session scope.
func SessionState(cells []StateWrite) map[string]any {
	own := map[string]any{}
	for _, c := range cells {
		if c.Scope == session.ScopeSession && c.Value != nil {
			own[c.Key] = c.Value
		}
	}
	return own
}

package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

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
	delta, err := canonicalizeState(ev.Actions.StateDelta)
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
	// Set before the append: readers may see the event before appendEvent returns.
	ev.Seq = sess.Version + 1
	rec := record{key: sess.Key, version: sess.Version, epoch: epoch, event: ev, cells: splitDelta(ev.Actions.StateDelta), updates: shared}
	if e != nil {
		rec.id = e.id
	}
	at, err := s.writeRecord(ctx, sess, &rec)
	if err == nil && at.seq > sess.Version+1 {
		err = errStale(sess.ID, sess.Version, at.seq)
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
	if at.seq <= sess.Version {
		ev.Seq = at.seq // the session already had the event
		return nil
	}
	s.publishEvent(sess, e, storedEvent{ev, at.text, at.cost})
	if len(delta) > 0 {
		sess.State.Apply(cloneMap(delta))
	}
	return nil
}

// cachedEntry returns the cache entry of a session, or nil. A cached key is
// already validated.
func (s *Sessions) cachedEntry(key session.Key) (*cacheEntry, error) {
	if e := s.cache.get(key); e != nil {
		return e, nil
	}
	return nil, checkSession(key)
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
	if err := checkText("invocation id", ev.InvocationID, maxID); err != nil {
		return ev, err
	}
	return ev, checkText("event id", ev.ID, maxID)
}

// publishEvent adds a durable event to the caller's session and to the cache
// entry, if there is one.
func (s *Sessions) publishEvent(sess *session.Session, e *cacheEntry, st storedEvent) {
	if e != nil {
		s.cache.appendNew(e, []storedEvent{st})
	}
	if e == nil || e.history != sess.History {
		sess.History.Append(st.event)
		sess.History.AddBytes(st.text)
	}
	sess.Version = st.event.Seq
	sess.LastUpdate = st.event.Timestamp
}

// splitDelta converts a canonical delta to cells, without temp: keys. All
// writers use the same order, which prevents deadlocks.
func splitDelta(delta map[string]any) []cell {
	if len(delta) == 0 {
		return nil
	}
	cells := make([]cell, 0, len(delta))
	for k, v := range delta {
		if scope, _ := session.ScopeOf(k); scope != session.ScopeTemp {
			cells = append(cells, cell{k, scope, v})
		}
	}
	slices.SortFunc(cells, func(a, b cell) int { return cmp.Compare(a.key, b.key) })
	return cells
}

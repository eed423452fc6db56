package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// Append adds an event to a session, and what it does to the state, in one
// durable step. Only then, the event gets its Seq and is seen in sess: in its
// history, its state, its version and its time.
//
// An event without id gets a new one, and one without time the clock's; both
// stay when the append fails, so that trying again is the same event. An event
// whose id the session has already is not added again, and is no error. Times
// are cut to microseconds. A nil value in the state delta removes its key. State
// updates are computed from what is stored, in the same step, and the stored
// event has their results in its state delta; one that cannot be computed is
// ErrInvalid.
// temp: keys reach sess.State only: the stored event is ev without them. A
// partial event is not stored and changes nothing. An event that has a Seq was
// stored before and is never changed: a copy of it is appended.
//
// ErrStale says that the session was changed since sess was read, ErrNotFound
// that it is gone, ErrInvalid that the event cannot be stored: a limit that it
// exceeds is a [session.LimitError]. ErrFenced, which is an ErrStale, says that the session was acquired here and another
// store has taken it over. After an error, sess is as it was.
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
	// The backend may show the event to readers before it returns.
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
		ev.Seq = at.seq // the session had the event before
		return nil
	}
	s.publishEvent(sess, e, storedEvent{ev, at.text, at.cost})
	if len(delta) > 0 {
		sess.State.Apply(cloneMap(delta))
	}
	return nil
}

// cachedEntry is the cache's entry of a session, or nil. A key that has one was checked
// when it was made.
func (s *Sessions) cachedEntry(key session.Key) (*cacheEntry, error) {
	if e := s.cache.get(key); e != nil {
		return e, nil
	}
	return nil, checkSession(key)
}

// completeEvent gives an event what a stored one must have.
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

// publishEvent makes a durable event visible in the caller's session and in the cache,
// which may have an entry of it.
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

// splitDelta splits a canonical delta into the cells to be written, without temp:
// keys, in an order that is the same for all writers, so that no two of them
// wait for each other in turn.
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

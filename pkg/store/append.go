package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store/backend"
)

// An append is a compare-and-set: it names the version that it builds on, and the backend stores the
// event as version+1 if nothing came between. The rules are here, once, and a backend
// has only rows:
//
//	validate     ids and keys in a form that every database stores alike
//	complete     a missing id and time
//	fence        the epoch of this store's lease
//	compute      updates of session keys from the state in memory, which the version protects;
//	             those of app: and user: keys by the backend, from the rows it locks
//	bound        the event, the session and the state of each scope
//	write        AppendEvent, the only step that others see
//	publish      the event in the caller's session, in the cache and in its state
//
// Invariants:
//   - Before write nothing is changed but the event's id and time; after an error, the event has
//     its actions back and Seq is 0. A retry therefore appends the same event, and the backend
//     finds its id if the first attempt was stored (idempotent retry).
//   - temp: keys reach the caller's state and never the backend.
//   - The stored event is all that happened: its delta has the results of its updates, so a replay
//     of the events gives the state.

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
// temp: keys are applied to sess.State only and are not stored. A partial event is not stored and
// changes nothing. An event with a Seq was stored before and is never changed: its copy is
// appended.
//
// Append fails with ErrStale if the session changed since sess was read, with ErrNotFound if the
// session was deleted, and with ErrInvalid if the event cannot be stored; an exceeded limit is a
// [session.LimitError]. It fails with ErrFenced, which is an ErrStale, if this store held the
// session's lease and another store took it over. After an error, sess is unchanged.
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
	rec := AppendRecord{Key: sess.Key, Version: sess.Version, Epoch: epoch, Event: ev, Writes: SplitState(ev.Actions.StateDelta), Updates: shared, Outcome: sess.Outcome}
	if e != nil {
		rec.ID = e.id
	}
	at, err := s.writeRecord(ctx, sess, &rec)
	if err == nil && at.Seq > sess.Version+1 {
		err = backend.SessionStale(sess.ID, sess.Version, at.Seq)
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
	s.publishEvent(sess, e, StoredEvent{ev, at.TextBytes, at.CacheBytes})
	if len(delta) > 0 {
		sess.State.Apply(codec.CloneMap(delta))
	}
	return nil
}

// cachedEntry returns a session's cache entry, or nil. A cached key is already validated.
func (s *Sessions) cachedEntry(key session.Key) (*cacheEntry, error) {
	if e := s.cache.get(key); e != nil {
		return e, nil
	}
	return nil, codec.CheckSession(key)
}

// completeEvent sets an event's id and time if they are missing, and validates its ids.
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

// writeRecord checks a record against the limits, encodes its event, and passes it to the backend.
// Update results are checked when the backend computes them.
func (s *Sessions) writeRecord(ctx context.Context, sess *session.Session, rec *AppendRecord) (AppendResult, error) {
	size, err := s.loadEventBytes(ctx, sess)
	if err != nil {
		return AppendResult{}, err
	}
	b := appendLimits{s.limits, sess.State, rec.Event.Actions.StateDelta, size}
	if len(b.delta) > 0 || len(rec.Updates) > 0 {
		checked := b // lockGrowth and the record keep it: most events change no state and need no copy
		release, err := s.growing.lockGrowth(ctx, rec.Key, &checked, rec.Updates)
		if err != nil {
			return AppendResult{}, err
		}
		defer release()
		if err := checked.checkDelta(); err != nil {
			return AppendResult{}, err
		}
		if len(rec.Updates) > 0 {
			rec.limits = &checked
			return s.backend.AppendEvent(ctx, *rec)
		}
	}
	room := eventBuffers.Get().(*[]byte)
	if rec.Text, err = b.encodeEvent((*room)[:0], rec.Event); err != nil {
		return AppendResult{}, err
	}
	at, err := s.backend.AppendEvent(ctx, *rec)
	if *room = rec.Text; cap(*room) <= maxPooledBuffer {
		eventBuffers.Put(room)
	}
	return at, err
}

// eventBuffers pools buffers for event JSON.
var eventBuffers = sync.Pool{New: func() any { return new([]byte) }}

// Larger buffers than maxPooledBuffer are not pooled.
const maxPooledBuffer = 64 << 10

// loadEventBytes returns the session's total event size. For a partial read it queries the backend
// once.
func (s *Sessions) loadEventBytes(ctx context.Context, sess *session.Session) (int64, error) {
	n := sess.History.Bytes()
	if n > 0 || sess.Version == 0 {
		return n, nil
	}
	n, err := s.backend.SumEventBytes(ctx, sess.Key)
	if err == nil {
		sess.History.AddBytes(n)
	}
	return n, err
}

// publishEvent adds a durable event to the caller's session and to the cache
// entry, if there is one.
func (s *Sessions) publishEvent(sess *session.Session, e *cacheEntry, st StoredEvent) {
	if e != nil {
		s.cache.appendNew(e, []StoredEvent{st})
	}
	if e == nil || e.history != sess.History {
		sess.History.Append(st.Event)
		sess.History.AddBytes(st.TextBytes)
	}
	sess.Version = st.Event.Seq
	sess.LastUpdate = st.Event.Timestamp
}

package store

import (
	"context"
	"errors"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

// Limits for the events that share a transaction, so that other writers wait only a moment for it.
const (
	maxBulkEvents = 256
	maxBulkBytes  = 1 << 20
)

// A BulkAppender is a [SessionBackend] that appends several events to a session at once.
type BulkAppender interface {
	// AppendEvents appends consecutive events to one session in one transaction, and returns their
	// results. The records have no updates; the versions of all but the first follow from their
	// order. It fails as AppendEvent does, and with ErrExists if an event id appears twice or the
	// session has it, unless an earlier attempt stored them all.
	AppendEvents(ctx context.Context, recs []AppendRecord) ([]AppendResult, error)
}

// AppendAll appends events as Append does, many in one transaction if the backend can. If it
// fails, the first events may have been stored, and sess has them.
func (s *Sessions) AppendAll(ctx context.Context, sess *session.Session, events []*session.Event) error {
	bulk, _ := s.backend.(BulkAppender)
	for len(events) > 0 {
		n := countBulk(events)
		var err error
		if bulk == nil || n < 2 {
			n, err = 1, s.Append(ctx, sess, events[0])
		} else {
			n, err = s.appendBulk(ctx, bulk, sess, events[:n])
		}
		if errors.Is(err, session.ErrExists) {
			n, err, bulk = 0, nil, nil // Append finds the events that are there
		}
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// countBulk returns how many first events can share a transaction. Their state is known before, and
// they were never stored.
func countBulk(events []*session.Event) int {
	for i, ev := range events {
		if i == maxBulkEvents || ev.Partial || ev.Seq != 0 || len(ev.Actions.StateUpdates) > 0 {
			return i
		}
	}
	return len(events)
}

// appendBulk appends the first events, and returns how many.
func (s *Sessions) appendBulk(ctx context.Context, bulk BulkAppender, sess *session.Session, events []*session.Event) (n int, err error) {
	e, err := s.cachedEntry(sess.Key)
	if err != nil {
		return 0, err
	}
	epoch, err := s.leases.resolveEpoch(ctx, sess.Key)
	if err != nil {
		return 0, err
	}
	size, err := s.loadEventBytes(ctx, sess)
	if err != nil {
		return 0, err
	}
	b := &bulkAppend{
		limits: &appendLimits{s.limits, sess.State, map[string]any{}, size}, deltas: make([]map[string]any, 0, len(events)),
		first: AppendRecord{Key: sess.Key, Version: sess.Version, Epoch: epoch, Outcome: sess.Outcome},
	}
	if e != nil {
		b.first.ID = e.id
	}
	defer func() {
		if err == nil {
			return
		}
		for i := range b.recs { // none is stored
			b.recs[i].Event.Actions, b.recs[i].Event.Seq = b.given[i], 0
		}
	}()
	for _, ev := range events {
		if b.bytes > maxBulkBytes {
			break
		}
		if err := s.addEvent(b, ev); err != nil {
			return 0, err
		}
	}
	release, err := s.growing.lockGrowth(ctx, sess.Key, b.limits, nil)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := b.limits.checkDelta(); err != nil {
		return 0, err
	}
	results, err := bulk.AppendEvents(ctx, b.recs)
	if errors.Is(err, session.ErrFenced) {
		s.leases.markLost(sess.Key, epoch)
	}
	if err != nil {
		return 0, err
	}
	if e != nil {
		e.recordEpoch(epoch)
	}
	for i, r := range results {
		s.publishEvent(sess, e, StoredEvent{b.recs[i].Event, r.TextBytes, r.CacheBytes})
		if len(b.deltas[i]) > 0 {
			sess.State.Apply(codec.CloneMap(b.deltas[i]))
		}
	}
	return len(results), nil
}

// A bulkAppend collects one transaction's records.
type bulkAppend struct {
	limits *appendLimits // their delta covers all events
	first  AppendRecord
	recs   []AppendRecord
	deltas []map[string]any // with temp: keys
	given  []session.Actions
	bytes  int
}

// addEvent validates and encodes an event.
func (s *Sessions) addEvent(b *bulkAppend, ev *session.Event) error {
	delta, err := codec.CanonicalizeState(ev.Actions.StateDelta)
	if err != nil {
		return err
	}
	if ev, err = s.completeEvent(ev); err != nil {
		return err
	}
	b.given, b.deltas = append(b.given, ev.Actions), append(b.deltas, delta)
	rec := b.first
	rec.Version += int64(len(b.recs))
	rec.Event = ev
	ev.Actions.StateDelta, ev.Seq = session.WithoutTemp(delta), rec.Version+1
	rec.Writes = SplitState(ev.Actions.StateDelta)
	b.recs = append(b.recs, rec)
	for k, v := range ev.Actions.StateDelta {
		b.limits.delta[k] = v
	}
	text, err := b.limits.encodeEvent(nil, ev)
	b.limits.size += int64(len(text))
	b.bytes += len(text)
	b.recs[len(b.recs)-1].Text = text
	return err
}

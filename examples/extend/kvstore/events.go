package kvstore

import (
	"encoding/binary"
	"errors"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// appendEvent inserts an event after the last one.
func (tx rows) appendEvent(rec store.AppendRecord) (at store.AppendResult, err error) {
	h, err := tx.getHead(rec.Key)
	if err != nil {
		return at, err
	}
	if old, err := tx.findEvent(h, rec.Event.ID); err != nil || old != nil {
		return repeatedResult(rec, old), err
	}
	if rec.Epoch != 0 && rec.Epoch != h.Epoch {
		return at, backend.SessionFenced(rec.Key.ID)
	}
	if rec.Version != h.Version || rec.ID != 0 && rec.ID != h.ID {
		return at, backend.SessionStale(rec.Key.ID, rec.Version, h.Version)
	}
	var computed []store.StateWrite
	if len(rec.Updates) > 0 {
		if computed, rec.Text, err = tx.computeUpdates(rec); err != nil {
			return at, err
		}
	}
	size := int64(len(rec.Text))
	h.Version, h.Updated, h.LastID, h.Bytes = h.Version+1, rec.Event.Timestamp.UnixMicro(), rec.Event.ID, h.Bytes+size
	err = errors.Join(
		tx.putHead(rec.Key, h), tx.Put(eventKey(h.ID, h.Version), encodeEvent(rec)),
		tx.Put(eventIDKey(h.ID, rec.Event.ID), appendNumber(nil, h.Version)),
		tx.writeState(rec.Key, rec.Writes), tx.writeState(rec.Key, computed),
	)
	return store.AppendResult{Seq: h.Version, TextBytes: size, CacheBytes: estimateEventBytes(size)}, err
}

// repeatedResult is the result when the session already has the appended event.
func repeatedResult(rec store.AppendRecord, old *store.StoredEvent) store.AppendResult {
	if old == nil {
		return store.AppendResult{}
	}
	if len(rec.Updates) > 0 {
		rec.Event.Actions.StateDelta = old.Event.Actions.StateDelta
	}
	return store.AppendResult{Seq: old.Event.Seq, TextBytes: old.TextBytes, CacheBytes: old.CacheBytes}
}

// computeUpdates computes a record's updates from the stored values.
func (tx rows) computeUpdates(rec store.AppendRecord) ([]store.StateWrite, []byte, error) {
	values := make(map[string]any, len(rec.Updates))
	for _, u := range rec.Updates {
		v, err := tx.readStateKey(rec.Key, u.Scope, u.Key)
		if err != nil {
			return nil, nil, err
		}
		values[u.Key] = v
	}
	return rec.ComputeUpdates(rec.Event, func(u *store.SharedUpdate) any { return values[u.Key] })
}

// findEvent returns a session's event by ID, or nil.
func (tx rows) findEvent(h *head, id string) (*store.StoredEvent, error) {
	b, err := tx.Get(eventIDKey(h.ID, id))
	if err != nil || b == nil {
		return nil, err
	}
	seq, ok := parseNumber(b)
	if !ok {
		return nil, backend.NewDamagedError(errors.New("not a number"), "number of event %s", id)
	}
	row, err := tx.Get(eventKey(h.ID, seq))
	if err == nil && row == nil {
		err = backend.NewDamagedError(errMissing, "event %d", seq)
	}
	if err != nil {
		return nil, err
	}
	ev, err := decodeEvent(row, seq)
	return &ev, err
}

// readWindow adds the events that a window selects to a snapshot.
func (tx rows) readWindow(snap *store.Snapshot, w store.EventWindow) (err error) {
	switch {
	case w.IsNarrow():
		snap.Events, err = tx.readNarrow(snap.Head, w)
		return err
	case w.ID != snap.ID:
		w.Since = 0
	case w.Since == snap.Version && w.SinceID == snap.LastID:
		return nil
	case w.Since > 0 && w.Since <= snap.Version:
		events, err := tx.readEvents(snap.Head, w.Since)
		if err != nil {
			return err
		}
		if events[0].Event.ID == w.SinceID {
			snap.Events = events[1:]
			return nil
		}
	}
	snap.Whole = w.Since > 0
	snap.Events, err = tx.readEvents(snap.Head, 1)
	return err
}

// readNarrow reads the events in a window by count or time. A window by time reads all events,
// since their times have no order.
func (tx rows) readNarrow(h store.Head, w store.EventWindow) ([]store.StoredEvent, error) {
	from := int64(1)
	if w.After == nil {
		from = max(1, h.Version-int64(w.Last)+1)
	}
	all, err := tx.readEvents(h, from)
	if err != nil {
		return nil, err
	}
	plain := make([]*session.Event, len(all))
	for i := range all {
		plain[i] = all[i].Event
	}
	// The filters keep the last events, if any.
	return all[len(all)-len(w.FilterEvents(plain)):], nil
}

// readEvents reads the events from a number to the last one.
func (tx rows) readEvents(h store.Head, from int64) ([]store.StoredEvent, error) {
	var all []store.StoredEvent
	next := from
	err := tx.Scan(eventKey(h.ID, from), eventKey(h.ID, h.Version+1), func(k, row []byte) error {
		if seq, _ := parseNumber(k[len(k)-8:]); seq != next {
			return backend.NewDamagedError(errMissing, "event %d", next)
		}
		ev, err := decodeEvent(row, next)
		all = append(all, ev)
		next++
		return err
	})
	if err == nil && next <= h.Version {
		err = backend.NewDamagedError(errMissing, "event %d", next)
	}
	return all, err
}

var errMissing = errors.New("row is missing")

// encodeEvent returns an event's row: the provenance's length, the provenance, and the JSON.
func encodeEvent(rec store.AppendRecord) []byte {
	provenance := rec.Event.Provenance.Append(nil)
	row := make([]byte, 0, len(provenance)+len(rec.Text)+binary.MaxVarintLen32)
	row = append(binary.AppendUvarint(row, uint64(len(provenance))), provenance...)
	return append(row, rec.Text...)
}

func decodeEvent(row []byte, seq int64) (store.StoredEvent, error) {
	n, used := binary.Uvarint(row)
	if used <= 0 || n > uint64(len(row)-used) {
		return store.StoredEvent{}, backend.NewDamagedError(errors.New("row is incomplete"), "event %d", seq)
	}
	provenance, text := row[used:used+int(n)], row[used+int(n):]
	ev := &session.Event{}
	err := ev.UnmarshalJSON(text)
	if err == nil {
		ev.Provenance, err = session.DecodeProvenance(provenance)
	}
	if err != nil {
		return store.StoredEvent{}, backend.NewDamagedError(err, "event %d", seq)
	}
	ev.Seq = seq
	size := int64(len(text))
	return store.StoredEvent{Event: ev, TextBytes: size, CacheBytes: estimateEventBytes(size)}, nil
}

// estimateEventBytes estimates an event's memory from its JSON's length.
func estimateEventBytes(text int64) int64 { return 1024 + 2*text }

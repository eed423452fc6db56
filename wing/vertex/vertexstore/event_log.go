package vertexstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// An eventLog is what this process has from a session's events, without their content. The
// session's lock protects it.
type eventLog struct {
	id      int64
	created time.Time
	entries []logEntry
	seqs    map[string]int64 // by event id
	// loaded reports that the entries were read from the service once.
	loaded bool
	// listed is how many entries, from the first, the last list had, at listedAt. This process has
	// appended the others: other processes' events may lie between them.
	listed   int
	listedAt time.Time
}

type logEntry struct {
	id    string
	at    time.Time // in the envelope
	time  time.Time // the event's
	bytes int64
	name  string
}

func newEventLog(r *receivedSession) *eventLog {
	return &eventLog{id: r.headID(), created: r.createdAt(), seqs: map[string]int64{}}
}

func (l *eventLog) storeHead() store.Head {
	h := store.Head{ID: l.id, Version: int64(len(l.entries)), Updated: l.created}
	if n := len(l.entries); n > 0 {
		h.Updated = l.entries[n-1].time
	}
	return h
}

func (l *eventLog) appendResult(seq int64) store.AppendResult {
	n := l.entries[seq-1].bytes
	return store.AppendResult{Seq: seq, TextBytes: n, CacheBytes: estimateEventBytes(n)}
}

// estimateEventBytes estimates an event's memory from the length of its JSON.
func estimateEventBytes(text int64) int64 { return 1024 + 2*text }

func (r *receivedSession) createdAt() time.Time { return r.CreateTime.UTC().Truncate(time.Microsecond) }

// errRecreated reports that a log belongs to a session that was deleted since.
var errRecreated = fmt.Errorf("it was deleted and created again meanwhile: %w", session.ErrUnavailable)

func recreatedError(key session.Key) error {
	return fmt.Errorf("reading session %s: %w", key.ID, errRecreated)
}

// replaceFrom replaces the entries from an index on.
func (l *eventLog) replaceFrom(from int, entries []logEntry) {
	for _, e := range l.entries[from:] {
		delete(l.seqs, e.id)
	}
	l.entries = append(l.entries[:from], entries...)
	for i, e := range entries {
		l.seqs[e.id] = int64(from + i + 1)
	}
}

// findStart returns how many events a window's reader has already.
func (l *eventLog) findStart(w store.EventWindow) int {
	if !w.IsNarrow() && w.ID == l.id && w.Since > 0 && w.Since <= int64(len(l.entries)) && l.entries[w.Since-1].id == w.SinceID {
		return int(w.Since)
	}
	return 0
}

// maxLogs limits the sessions whose logs are kept.
const maxLogs = 10_000

func (b *Sessions) setLog(key session.Key, l *eventLog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.logs, key)
	if l == nil || b.closed {
		return
	}
	for other := range b.logs {
		if len(b.logs) < maxLogs {
			break
		}
		delete(b.logs, other) // it is read again when it is needed
	}
	b.logs[key] = l
}

// openLog returns a session's log. It reads the session: it may have been deleted or created again
// by another process.
func (b *Sessions) openLog(ctx context.Context, key session.Key) (*eventLog, error) {
	r, err := b.getSession(ctx, key)
	if err != nil {
		return nil, err
	}
	l := b.findLog(key)
	if l == nil || l.id != r.headID() {
		l = newEventLog(r)
		b.setLog(key, l)
	}
	return l, nil
}

func (b *Sessions) findLog(key session.Key) *eventLog {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logs[key]
}

// isFresh reports whether the events were listed within a time.
func (l *eventLog) isFresh(within time.Duration) bool {
	return l.loaded && time.Since(l.listedAt) < within
}

// openLogForAppend returns a session's log. If it has events, listing later events shows whether
// the session is still the same one.
func (b *Sessions) openLogForAppend(ctx context.Context, key session.Key) (*eventLog, error) {
	if l := b.findLog(key); l != nil && (l.isFresh(b.freshFor) || l.loaded && len(l.entries) > 0) {
		return l, nil
	}
	return b.openLog(ctx, key)
}

// listAttempts bounds how often events are listed until they include those that this
// process has appended.
const listAttempts = 6

// readEvents returns the events after the first ones, and updates the log from there on. It
// begins earlier if the entries before were not listed yet. An event that appears twice, after
// a repeated append, is read once.
func (b *Sessions) readEvents(ctx context.Context, key session.Key, l *eventLog, from int) ([]store.StoredEvent, error) {
	from = min(from, l.listed)
	for attempt := 1; ; attempt++ {
		events, entries, missing, err := b.listEvents(ctx, key, l.entries[:from])
		if err != nil {
			return nil, err
		}
		if missing == "" {
			missing = findMissing(l.entries[from:], entries)
		}
		if missing == "" {
			l.replaceFrom(from, entries)
			l.loaded, l.listed, l.listedAt = true, len(l.entries), time.Now()
			return events, nil
		}
		if err := b.checkRecreated(ctx, key, l); err != nil {
			return nil, err
		}
		if attempt == listAttempts {
			b.setLog(key, nil) // another process may have created the session again
			return nil, fmt.Errorf("reading session %s: Vertex AI accepted event %s but does not list it yet: %w", key.ID, missing, session.ErrUnavailable)
		}
		if err := sleepContext(ctx, nextBackoff(attempt)); err != nil {
			return nil, err
		}
	}
}

// checkRecreated returns an error if the session is not the log's.
func (b *Sessions) checkRecreated(ctx context.Context, key session.Key, l *eventLog) error {
	r, err := b.getSession(ctx, key)
	if err == nil && r.headID() != l.id {
		err = recreatedError(key)
	}
	if err != nil {
		b.setLog(key, nil)
	}
	return err
}

// readWindow returns a window's events from the first one that its reader may lack.
func (b *Sessions) readWindow(ctx context.Context, key session.Key, l *eventLog, w store.EventWindow) ([]store.StoredEvent, error) {
	first := min(l.findStart(w), l.listed)
	events, err := b.readEvents(ctx, key, l, first)
	if err != nil {
		return nil, err
	}
	first = len(l.entries) - len(events)
	// Other processes' events may have moved those that the reader has.
	if start := l.findStart(w); start >= first {
		return events[start-first:], nil
	}
	return b.readEvents(ctx, key, l, 0)
}

// findMissing returns an entry that is in the log and not in the list, or "".
func findMissing(logged, listed []logEntry) string {
	ids := make(map[string]bool, len(listed))
	for _, e := range listed {
		ids[e.id] = true
	}
	for _, e := range logged {
		if !ids[e.id] {
			return e.id
		}
	}
	return ""
}

// listEvents reads the events after known ones, in order and without repetitions. The
// last known event must be in the list as well: missing is its id if it is not.
func (b *Sessions) listEvents(ctx context.Context, key session.Key, known []logEntry) (events []store.StoredEvent, entries []logEntry, missing string, err error) {
	path, err := b.sessionPath(key)
	if err != nil {
		return nil, nil, "", err
	}
	query, seen := url.Values{}, map[string]bool{}
	if len(known) > 0 {
		missing = known[len(known)-1].id
		query.Set("filter", `timestamp>="`+formatTime(known[len(known)-1].at)+`"`)
	}
	for _, e := range known {
		seen[e.id] = true
	}
	type item struct {
		ev    *session.Event
		entry logEntry
	}
	var all []item
	err = b.client.listPages(ctx, path+"/events", query, func(page json.RawMessage) (bool, error) {
		var list struct{ SessionEvents []receivedEvent }
		if err := json.Unmarshal(page, &list); err != nil {
			return false, err
		}
		for i := range list.SessionEvents {
			r := &list.SessionEvents[i]
			ev, size, err := r.decodeEvent()
			if err != nil {
				return false, backend.WrapReadError(key, err)
			}
			all = append(all, item{ev, logEntry{ev.ID, r.Timestamp, ev.Timestamp, size, r.Name}})
		}
		return true, nil
	})
	if isMissingSession(err) {
		return nil, nil, "", backend.SessionNotFound(key.ID)
	}
	if err != nil {
		return nil, nil, "", fmt.Errorf("reading events of session %s: %w", key.ID, err)
	}
	// The service does not promise an order for equal times.
	slices.SortStableFunc(all, func(a, b item) int {
		return cmp.Or(a.entry.at.Compare(b.entry.at), cmp.Compare(a.entry.name, b.entry.name))
	})
	for _, it := range all {
		if it.ev.ID == missing {
			missing = ""
		}
		if seen[it.ev.ID] {
			continue
		}
		seen[it.ev.ID] = true
		it.ev.Seq = int64(len(known) + len(entries) + 1)
		events = append(events, store.StoredEvent{Event: it.ev, TextBytes: it.entry.bytes, CacheBytes: estimateEventBytes(it.entry.bytes)})
		entries = append(entries, it.entry)
	}
	return events, entries, missing, nil
}

// appendAttempts bounds how often an event is sent.
const appendAttempts = 4

// insertEvent appends an event after the last one. If the response is lost, it looks for
// the event before it sends it again.
func (b *Sessions) insertEvent(ctx context.Context, rec *store.AppendRecord, l *eventLog) (at store.AppendResult, err error) {
	path, err := b.sessionPath(rec.Key)
	if err != nil {
		return at, err
	}
	n := len(l.entries)
	// The service orders events by time: times must grow.
	when := rec.Event.Timestamp
	if n > 0 && !when.After(l.entries[n-1].at) {
		when = l.entries[n-1].at.Truncate(time.Microsecond).Add(time.Microsecond)
	}
	body, err := encodeEvent(rec.Event, rec.Text, when)
	if err != nil {
		return at, err
	}
	for attempt := 1; ; attempt++ {
		err = b.client.sendCall(ctx, &call{method: http.MethodPost, path: path + ":appendEvent", body: body, once: true}, nil)
		if err == nil {
			break
		}
		if isMissingSession(err) {
			return at, backend.SessionNotFound(rec.Key.ID)
		}
		err = fmt.Errorf("appending to session %s: %w", rec.Key.ID, err)
		if !isUncertain(err) || attempt == appendAttempts {
			return at, err
		}
		if waitErr := sleepContext(ctx, nextBackoff(attempt)); waitErr != nil {
			return at, err
		}
		if _, readErr := b.readEvents(ctx, rec.Key, l, n); readErr != nil {
			return at, err
		}
		if seq := l.seqs[rec.Event.ID]; seq != 0 {
			return l.appendResult(seq), nil
		}
		if len(l.entries) != n {
			return at, backend.SessionStale(rec.Key.ID, rec.Version, int64(len(l.entries)))
		}
	}
	l.replaceFrom(n, []logEntry{{rec.Event.ID, when, rec.Event.Timestamp, int64(len(rec.Text)), ""}})
	return l.appendResult(int64(n + 1)), nil
}

package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// errClosed is returned by every method after Close.
var errClosed = errors.New("store is closed")

// A sessionBackend stores the rows of sessions. Its only rule is the version
// check: its input is already validated, split by scope and canonical. Keys
// compare byte by byte. Implementations are safe for concurrent use.
type sessionBackend interface {
	// createSession atomically inserts a session at version 0, writes the cells
	// and, if g is not nil, leases the session and sets the id and epoch of g.
	// An existing key is ErrExists.
	createSession(ctx context.Context, key session.Key, cells []cell, now time.Time, g *grant) error
	// readSession returns a consistent snapshot of a session: its head, its
	// state, and the events that the window selects. A missing session is
	// ErrNotFound.
	readSession(ctx context.Context, key session.Key, w eventWindow) (*snapshot, error)
	// listSessions returns the matching sessions in order of creation, with
	// state and without events.
	listSessions(ctx context.Context, q sessionQuery) ([]*listedSession, error)
	// deleteSession deletes a session with its events and its own state. A
	// missing session is not an error.
	deleteSession(ctx context.Context, key session.Key) error
	// appendEvent inserts an event and writes its cells in one transaction that
	// is durable on return. It fails with ErrStale if the session is not at the
	// version of the record, with ErrFenced if the record names an epoch that
	// is not the latest of the session, and with ErrNotFound if the session is
	// missing. Appending is idempotent: if the session already has the event
	// id, nothing changes and the result is the position of that event.
	appendEvent(ctx context.Context, rec record) (appendResult, error)
}

// A backend is a sessionBackend with leases, a health check and a lifecycle.
type backend interface {
	sessionBackend
	leaseBackend
	sessionInspector
	// ping checks that the backend can write.
	ping(ctx context.Context) error
	// close waits for pending writes. Later calls return errClosed.
	close() error
}

// An inspector reads parts of what is stored.
type sessionInspector interface {
	// readInitialState returns the session's own state as createSession wrote
	// it. The caller owns the map. A missing session is ErrNotFound.
	readInitialState(ctx context.Context, key session.Key) (map[string]any, error)
	// readSharedState returns the app: and user: keys visible to a session with
	// this key. The caller owns the map.
	readSharedState(ctx context.Context, key session.Key) (map[string]any, error)
	// sumEventBytes returns the JSON size of all events of a session.
	sumEventBytes(ctx context.Context, key session.Key) (int64, error)
}

// A cell is one write of a state key; a nil value deletes the key. The key
// includes its prefix.
type cell struct {
	key   string
	scope session.Scope
	value any
}

// An eventWindow selects the events that a read returns.
type eventWindow struct {
	// id is the head ID of the caller's copy, or 0. If the key now belongs to
	// another session, since is treated as 0.
	id int64
	// since selects the events with a greater sequence number, provided that
	// sinceID is the id of the event with number since. Otherwise the snapshot
	// is complete.
	since   int64
	sinceID string
	// last limits the result to the latest events; a negative value means no
	// limit.
	last int
	// after selects the events that follow the last event older than this time;
	// nil selects all.
	after *time.Time
}

// isNarrow reports whether the window filters by count or time.
func (w eventWindow) isNarrow() bool { return w.last >= 0 || w.after != nil }

// filterEvents applies the filters by time and count.
func (w eventWindow) filterEvents(events []*session.Event) []*session.Event {
	if w.after != nil {
		for i, e := range slices.Backward(events) {
			if e.Timestamp.Before(*w.after) {
				events = events[i+1:]
				break
			}
		}
	}
	if w.last >= 0 && len(events) > w.last {
		events = events[len(events)-w.last:]
	}
	return events
}

// A head is a session without its events: its id, and the number and time of
// its last event. Ids are never reused, even if the key of a deleted session
// is.
type head struct {
	id      int64
	version int64
	updated time.Time
}

// A snapshot is a consistent view of a session. The caller owns the state; the
// events are shared and ordered.
type snapshot struct {
	head
	state  map[string]any
	events []storedEvent
	// lastID is the id of the last event. whole reports that events holds all
	// events although the window asked for fewer.
	lastID string
	whole  bool
}

// A storedEvent is an event with its JSON size (text) and its estimated memory
// cost in the cache.
type storedEvent struct {
	event      *session.Event
	text, cost int64
}

// A sessionQuery selects sessions of an app.
type sessionQuery struct {
	app string
	// user selects one user; empty selects all users.
	user string
	// after selects sessions with a greater head id.
	after int64
	// limit is the maximum number of sessions; 0 means no limit.
	limit int
	// before selects sessions last changed before this time; the zero time
	// selects all.
	before time.Time
}

// A listedSession is a session head with its key and state.
type listedSession struct {
	key session.Key
	head
	state map[string]any
}

// A record is one append.
type record struct {
	key session.Key
	// id is the head id, or 0 if the caller does not know it.
	id      int64
	version int64
	// epoch is the lease epoch of the writer, or 0 without a lease.
	epoch int64
	event *session.Event
	cells []cell
	// updates are updates of shared keys, ordered by key. The backend computes
	// them in the transaction and replaces the event's state delta with a new
	// map that includes the results.
	updates []update
	// text is the JSON of the event. With updates it depends on their results,
	// see computeUpdates.
	text []byte
	// limits are checked again after updates are computed.
	limits *appendLimits
}

// An appendResult holds the sequence number of the event, its JSON size (text)
// and its estimated memory cost in the cache.
type appendResult struct {
	seq, text, cost int64
}

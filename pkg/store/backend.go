package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// errClosed is the answer of a store after Close.
var errClosed = errors.New("store is closed")

// A sessionBackend keeps the rows of sessions. It knows no rule but that of
// versions: what it is given has been checked, split and made canonical. Keys
// compare byte by byte. Many goroutines use it.
type sessionBackend interface {
	// createSession adds a session at version 0 and writes cells, in one step, and
	// leases it when there is a grant, whose id and epoch it sets. A key that is
	// there already is ErrExists.
	createSession(ctx context.Context, key session.Key, cells []cell, now time.Time, g *grant) error
	// readSession returns a session's head, its state, and the events that the window
	// asks for, all of one moment. A missing session is ErrNotFound.
	readSession(ctx context.Context, key session.Key, w eventWindow) (*snapshot, error)
	// listSessions returns the sessions that are asked for in order of creation, with
	// state and without events.
	listSessions(ctx context.Context, q sessionQuery) ([]*listedSession, error)
	// deleteSession takes a session away with its events and its own state. A missing
	// one is no error.
	deleteSession(ctx context.Context, key session.Key) error
	// appendEvent adds an event and writes its cells in one step that is durable
	// when it returns. The session must be at the record's version, else it is
	// ErrStale, and when the record names an epoch, this must be the session's
	// last one, else it is ErrFenced; a missing one is ErrNotFound. An event id
	// that the session has already changes nothing and returns the place of the
	// event.
	appendEvent(ctx context.Context, rec record) (appendResult, error)
}

// A backend is a sessionBackend with its life.
type backend interface {
	sessionBackend
	leaseBackend
	sessionInspector
	// ping says whether the backend can write.
	ping(ctx context.Context) error
	// close waits for writes under way. Calls after it are errClosed.
	close() error
}

// An inspector reads parts of what is stored.
type sessionInspector interface {
	// readInitialState returns the session's own state as create wrote it. It belongs
	// to the caller. A missing session is ErrNotFound.
	readInitialState(ctx context.Context, key session.Key) (map[string]any, error)
	// readSharedState returns the app: and user: keys that a session of the key has. They
	// belong to the caller.
	readSharedState(ctx context.Context, key session.Key) (map[string]any, error)
	// sumEventBytes is how many bytes the events of a session take as JSON.
	sumEventBytes(ctx context.Context, key session.Key) (int64, error)
}

// A cell is one state key that is written; a nil value takes it away. The key
// has its prefix.
type cell struct {
	key   string
	scope session.Scope
	value any
}

// A window is the part of the events that a read asks for.
type eventWindow struct {
	// id is the head's id that the caller knows, or 0. When the session's key
	// belongs to another one by now, since is 0.
	id int64
	// since keeps the events with a greater sequence number, when sinceID is the id
	// of the event with this one. Else the snapshot is whole.
	since   int64
	sinceID string
	// last keeps only so many, the latest; below 0 keeps all.
	last int
	// after keeps the events behind the last one that is older; nil keeps all.
	after *time.Time
}

// isNarrow tells a window of chosen events from a whole one.
func (w eventWindow) isNarrow() bool { return w.last >= 0 || w.after != nil }

// filterEvents keeps the events that a narrow window asks for.
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
// its last event. The id is never given again, also not when the session's key
// is.
type head struct {
	id      int64
	version int64
	updated time.Time
}

// A snapshot is a session at one moment. The state belongs to the caller; the
// events are shared and in order.
type snapshot struct {
	head
	state  map[string]any
	events []storedEvent
	// lastID is the id of the last event; whole says that events are all, though
	// fewer were asked for.
	lastID string
	whole  bool
}

// A stored event comes with the length of its JSON text, and with what the cache
// pays for it.
type storedEvent struct {
	event      *session.Event
	text, cost int64
}

// A sessionQuery asks for the sessions of an app.
type sessionQuery struct {
	app string
	// user is whose; empty is everybody's.
	user string
	// after keeps those with a greater id of the head.
	after int64
	// limit is how many, the first ones; 0 is all.
	limit int
	// before keeps those that did not change since; the zero time keeps all.
	before time.Time
}

// A listed session has a key, a head and its state.
type listedSession struct {
	key session.Key
	head
	state map[string]any
}

// A record is one append.
type record struct {
	key session.Key
	// id is the head's id, or 0 when the caller does not know it.
	id      int64
	version int64
	// epoch is that of the lease under which it is written, or 0.
	epoch int64
	event *session.Event
	cells []cell
	// updates are those of shared keys, by key. The backend computes them in the
	// transaction, and adds the results to the event's state delta: a new map.
	updates []update
	// text is the event's JSON, until append returns. With updates, it follows from
	// them, see settle.
	text []byte
	// limits are checked again when there are updates.
	limits *appendLimits
}

// appendResult says where an event came to stand, how long its JSON text is, and what the
// cache pays for it.
type appendResult struct {
	seq, text, cost int64
}

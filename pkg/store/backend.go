package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/session"
)

// ErrClosed is the error that every backend method returns after Close.
var ErrClosed = errors.New("store is closed")

// A SessionBackend stores sessions with their events, state and leases.
type SessionBackend interface {
	SessionRows
	LeaseRows
	SessionInspector
	// Ping checks that the backend can write.
	Ping(ctx context.Context) error
	// Close waits for pending writes. Later calls return ErrClosed.
	Close() error
}

// An ExpiringBackend is a [SessionBackend] whose service deletes sessions at a time.
type ExpiringBackend interface {
	// CreateExpiring is CreateSession with the time at which the session is deleted. A time
	// that the service does not allow is ErrInvalid.
	CreateExpiring(ctx context.Context, key session.Key, state []StateWrite, expires time.Time, g *LeaseGrant) error
}

// SessionRows stores session rows. Its only rule is the version check: its input is already
// validated, split by scope and canonical. Keys compare byte by byte. Errors wrap those of package
// session, as [SessionNotFound] does. Implementations are safe for concurrent use.
type SessionRows interface {
	// CreateSession atomically inserts a session at version 0, writes its state
	// and, if g is not nil, leases the session and sets the id and epoch of g.
	// An existing key is ErrExists.
	CreateSession(ctx context.Context, key session.Key, state []StateWrite, now time.Time, g *LeaseGrant) error
	// ReadSession returns a consistent session snapshot: its head, its state, and the events that
	// the window selects. A missing session is ErrNotFound.
	ReadSession(ctx context.Context, key session.Key, w EventWindow) (*Snapshot, error)
	// ListSessions returns the matching sessions in creation order or its reverse, with state and without events.
	ListSessions(ctx context.Context, q SessionQuery) ([]*ListedSession, error)
	// DeleteSession deletes a session with its events and its own state. A
	// missing session is not an error.
	DeleteSession(ctx context.Context, key session.Key) error
	// AppendEvent inserts an event and writes its state in one transaction that is durable on
	// return. It fails with ErrStale if the session is not at the record's version, with ErrFenced
	// if the record names an epoch that is not the session's latest, and with ErrNotFound if the
	// session is missing. Appending is idempotent: if the session already has the event id, nothing
	// changes and the result is that event's position. The event belongs to the backend, its text
	// and the outcome to the caller.
	AppendEvent(ctx context.Context, rec AppendRecord) (AppendResult, error)
}

// A SessionInspector reads parts of stored sessions, and finds the old ones.
type SessionInspector interface {
	RetentionRows
	// ReadInitialState returns the session's own state as CreateSession wrote
	// it. The caller owns the map. A missing session is ErrNotFound.
	ReadInitialState(ctx context.Context, key session.Key) (map[string]any, error)
	// ReadSharedState returns the app: and user: keys visible to a session with
	// this key. The caller owns the map.
	ReadSharedState(ctx context.Context, key session.Key) (map[string]any, error)
	// SumEventBytes returns the JSON size of a session's events.
	SumEventBytes(ctx context.Context, key session.Key) (int64, error)
}

// An EventWindow selects the events that a read returns.
type EventWindow struct {
	// ID is the head ID in the caller's copy, or 0. If the key now belongs to another session,
	// Since is treated as 0.
	ID int64
	// Since selects the events with a greater sequence number, provided that the event with number
	// Since has the id SinceID. Otherwise the snapshot is complete.
	Since   int64
	SinceID string
	// Last limits the result to the latest events; a negative value means no
	// limit.
	Last int
	// After selects the events that follow the last event older than this time;
	// nil selects all.
	After *time.Time
}

// IsNarrow reports whether the window filters by count or time.
func (w EventWindow) IsNarrow() bool { return w.Last >= 0 || w.After != nil }

// FilterEvents applies the filters by time and count.
func (w EventWindow) FilterEvents(events []*session.Event) []*session.Event {
	if w.After != nil {
		for i, e := range slices.Backward(events) {
			if e.Timestamp.Before(*w.After) {
				events = events[i+1:]
				break
			}
		}
	}
	if w.Last >= 0 && len(events) > w.Last {
		events = events[len(events)-w.Last:]
	}
	return events
}

// A Head is a session without its events: its id, and its last event's number and time. Ids are
// never reused, even if a deleted session's key is.
type Head struct {
	ID      int64
	Version int64
	Updated time.Time
}

// A Snapshot is a consistent session view. The caller owns the state; the events are shared and
// ordered.
type Snapshot struct {
	Head
	State  map[string]any
	Events []StoredEvent
	// LastID is the last event's id.
	LastID string
	// Outcome is the stored form of the outcome that the last event has; empty without one.
	Outcome []byte
	// Whole reports that Events holds all events although the window asked for
	// fewer.
	Whole bool
}

// A StoredEvent is an event with its JSON size and its estimated size in the cache.
type StoredEvent struct {
	Event                 *session.Event
	TextBytes, CacheBytes int64
}

// A SessionQuery selects an app's sessions.
type SessionQuery struct {
	App string
	// User selects one user; empty selects all users.
	User string
	// After selects sessions with a greater head id.
	After int64
	// IDs, if set, selects the sessions with these head ids.
	IDs []int64
	// Limit is how many sessions to return at most; 0 means no limit.
	Limit int
	// Newest returns the sessions that were created last first.
	Newest bool
	// WithoutState allows a backend to leave out the sessions' states: nil.
	WithoutState bool
}

// Matches reports whether a session is selected, apart from the limit.
func (q SessionQuery) Matches(key session.Key, h Head) bool {
	return key.App == q.App && (q.User == "" || key.User == q.User) && h.ID > q.After && (q.IDs == nil || slices.Contains(q.IDs, h.ID))
}

// OrderSessions sorts all matching sessions, and drops those above the limit.
func (q SessionQuery) OrderSessions(all []*ListedSession) []*ListedSession {
	slices.SortFunc(all, func(a, b *ListedSession) int {
		if q.Newest {
			a, b = b, a
		}
		return cmp.Compare(a.ID, b.ID)
	})
	if q.Limit > 0 && len(all) > q.Limit {
		all = all[:q.Limit]
	}
	return all
}

// A ListedSession is a session head with its key and state.
type ListedSession struct {
	Key session.Key
	Head
	State map[string]any
}

// An AppendRecord is one append.
type AppendRecord struct {
	Key session.Key
	// ID is the head id, or 0 if the caller does not know it.
	ID int64
	// Version is the session version that the caller has read. The event becomes the next one.
	Version int64
	// Epoch is the writer's lease epoch, or 0 without a lease.
	Epoch  int64
	Event  *session.Event
	Writes []StateWrite
	// Updates change shared keys, ordered by key. The backend computes them in the transaction and
	// replaces the event's state delta with a new map that includes the results.
	Updates []SharedUpdate
	// Text is the event's JSON. With updates it depends on their results, see ComputeUpdates.
	Text []byte
	// Outcome is the stored form of the session's outcome up to the event.
	Outcome []byte
	// limits are checked again after updates are computed.
	limits *appendLimits
}

// ComputeUpdates computes a record's updates from the current values. It returns the cells to write
// and the event's JSON; the event gets a new state delta with the results. Nothing has changed when
// it fails.
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

// An AppendResult holds the event's sequence number, its JSON size and its estimated size in the
// cache.
type AppendResult struct {
	Seq, TextBytes, CacheBytes int64
}

// LeaseRows stores session leases. All stores that share the sessions see
// the same clock.
type LeaseRows interface {
	// AcquireLease leases the session to the grant's owner and sets the grant's id and epoch, if
	// the lease is free, expired, or already the owner's. Otherwise no lease changes, the grant has the
	// id and epoch of the holder's lease, and it returns the holder. A missing session is ErrNotFound.
	// An id and an epoch in the grant are the last known ones, which may save a read.
	AcquireLease(ctx context.Context, g *LeaseGrant) (holder string, err error)
	// ReadLease returns the owner of the session's lease, or "" if the lease is free or expired. It changes
	// nothing. Now is the current time for a backend without its own clock. A missing session is
	// ErrNotFound.
	ReadLease(ctx context.Context, key session.Key, now time.Time) (owner string, err error)
	// RenewLeases extends the grants by their term, and returns those that are
	// lost: taken over, or deleted with their session.
	RenewLeases(ctx context.Context, all []*LeaseGrant) (gone []*LeaseGrant, err error)
	// ReleaseLeases ends grants. It ignores those that are lost.
	ReleaseLeases(ctx context.Context, all []*LeaseGrant) error
}

// A LeaseGrant is a lease as a backend stores it. Only its owner may run the session. Its epoch
// (fencing token) is greater than every earlier grant's; an append that names an older epoch is
// rejected.
type LeaseGrant struct {
	Key       session.Key
	ID, Epoch int64 // the session head's id, the grant's epoch
	Owner     string
	Term      time.Duration
	// Now is the current time for a backend without its own clock.
	Now time.Time
}

// RetentionRows finds the sessions that are past their retention.
//
// A backend that stores many sessions records for each one a time at which it was certainly active:
// at first its creation. FindExpired examines only the sessions whose recorded time is too old, and
// records the last update if they turn out to be active. So a session that stays active is examined
// once in a retention, not at every search.
type RetentionRows interface {
	// EarliestTime returns the given process time, or the backend's own clock time if that is
	// earlier: one clock that runs ahead expires no session.
	EarliestTime(ctx context.Context, now time.Time) (time.Time, error)
	// FindExpired examines a page of sessions. It reads neither their events nor their state, apart
	// from the last event's time.
	FindExpired(ctx context.Context, q ExpiryQuery) (*ExpiredPage, error)
	// AcquireSweep reserves deleting an app's expired sessions to one store for a term, and reports
	// whether it did. The store that has the sweep can acquire it again.
	AcquireSweep(ctx context.Context, s Sweep) (bool, error)
}

// An ExpiryQuery selects an app's sessions that were created, and last changed, before a time.
type ExpiryQuery struct {
	App    string
	Before time.Time
	// After continues after the page that returned it as Next; nil begins.
	After *ExpiryCursor
	// Limit is how many sessions to examine at most. A backend whose sessions have no index by age
	// examines all.
	Limit int
	// Now is the current time for a backend without its own clock.
	Now time.Time
	// ReadOnly does not record that the other sessions are active.
	ReadOnly bool
}

// An ExpiryCursor is the last examined session: its recorded time in microseconds, and its
// head id.
type ExpiryCursor struct{ Active, ID int64 }

// IsExpired reports whether a session that was created and last changed at these times
// is expired.
func (q ExpiryQuery) IsExpired(created, updated time.Time) bool {
	return created.Before(q.Before) && updated.Before(q.Before)
}

// An ExpiredPage holds the expired sessions among the examined ones.
type ExpiredPage struct {
	Sessions []ExpiredSession
	// Next continues the search; nil means that all sessions have been examined.
	Next *ExpiryCursor
}

// An ExpiredSession is a session that is past its retention.
type ExpiredSession struct {
	Key session.Key
	// ID is its head's id. Another session with the key has another id.
	ID int64
	// Leased reports that a store holds its lease.
	Leased bool
}

// A Sweep reserves deleting an app's expired sessions to the store with this owner.
type Sweep struct {
	App, Owner string
	Term       time.Duration
	// Now is the current time for a backend without its own clock.
	Now time.Time
}

// Redacted returns a URL without user, password and parameters, for messages
// and logs. It accepts any string.
func Redacted(text string) string {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok {
		scheme, rest = "", text
	}
	slashes := ""
	if strings.HasPrefix(rest, "//") {
		slashes, rest = "//", rest[2:]
	}
	// A password may contain any character unescaped: the last @ ends it.
	if i := strings.LastIndex(rest, "@"); i >= 0 && !isFileURL(scheme, rest) {
		rest = "***@" + rest[i+1:]
	}
	if where, _, ok := strings.Cut(rest, "?"); ok {
		rest = where + "?…"
	}
	if ok {
		return scheme + ":" + slashes + rest
	}
	return rest
}

// isFileURL reports whether a URL names a file. Its path may contain an @.
func isFileURL(scheme, rest string) bool {
	return strings.HasPrefix(rest, "/") && slices.Contains([]string{"sqlite", "sqlite+aiosqlite", "dir"}, scheme)
}

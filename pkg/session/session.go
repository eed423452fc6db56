package session

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Key identifies a session. Ids compare byte by byte.
type Key struct {
	App, User, ID string
}

// String returns the parts joined by slashes, for logs.
func (k Key) String() string { return fmt.Sprintf("%s/%s/%s", k.App, k.User, k.ID) }

// A Session is one reader's view of a stored session. All readers share its
// history, which grows as events are appended; each has its own state.
type Session struct {
	Key
	// Version is the number of appended events, that is, the Seq of the last
	// one.
	Version int64
	// History holds the session's events, or the requested part of them.
	History *History
	// State is the merged state: session keys, and user: and app: keys with
	// their prefixes.
	State *State
	// LastUpdate is the time of the last event, or of the creation.
	LastUpdate time.Time
}

// Events returns the session's events in order. The slice must not be changed.
func (s *Session) Events() []*Event { return s.History.Events() }

// EventsBy returns the events of one author in order.
func (s *Session) EventsBy(author string) []*Event {
	var es []*Event
	for _, e := range s.Events() {
		if e.Author == author {
			es = append(es, e)
		}
	}
	return es
}

// A History is an append-only list of events with cached derived values. It is
// safe for concurrent use.
type History struct {
	mu      sync.Mutex
	events  []*Event
	bytes   int64
	derived map[any]derived
	// derivedBytes is the total size of the derived values.
	derivedBytes atomic.Int64
}

// A derived value with its approximate size.
type derived struct {
	value any
	bytes int64
}

// NewHistory creates a history of the given events; it takes ownership of the
// slice.
func NewHistory(events []*Event) *History { return &History{events: events} }

// Events returns all events in order. The slice does not change when the
// history grows; callers must not modify it.
func (h *History) Events() []*Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.events)
}

// Len returns the number of events.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// Append appends an event. Only a store calls it, after the event is durable.
func (h *History) Append(e *Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cap(h.events) == 0 {
		h.events = make([]*Event, 0, 8) // what most first turns have
	}
	h.events = append(h.events, e)
}

// AddBytes adds the JSON size of stored events. Only a store calls it.
func (h *History) AddBytes(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += n
}

// Bytes returns the JSON size of all stored events of the session, including
// those that are not loaded; 0 means unknown.
func (h *History) Bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// Derive caches a value computed from the events, such as the contents for an
// agent's model, so that each turn only processes new events. extend gets the
// value of the previous call with this key (nil at first) and all events. It
// returns the updated value and its approximate size in bytes, without the
// events. It runs under the history's lock: it must be quick and must not use
// the history.
func (h *History) Derive(key any, extend func(last any, events []*Event) (v any, bytes int64)) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.derived[key]
	v, bytes := extend(last.value, slices.Clip(h.events))
	if h.derived == nil {
		h.derived = map[any]derived{}
	}
	h.derived[key] = derived{v, bytes}
	h.derivedBytes.Add(bytes - last.bytes)
	return v
}

// DerivedBytes returns the approximate size of the derived values.
func (h *History) DerivedBytes() int64 { return h.derivedBytes.Load() }

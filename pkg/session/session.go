package session

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Key names a session: ids are compared byte by byte.
type Key struct {
	App, User, ID string
}

// String joins the three parts for logs.
func (k Key) String() string { return fmt.Sprintf("%s/%s/%s", k.App, k.User, k.ID) }

// A Session is one reader's view of a stored session. Its history is shared
// with every other reader and grows as events are appended; its state is the
// reader's own.
type Session struct {
	Key
	// Version counts the events ever appended; it is the Seq of the last one.
	Version int64
	// History is the session's events, or the part of them that was asked for.
	History *History
	// State is the merged view: session keys, and user: and app: keys with
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

// A History is an append-only list of events, with room for values derived
// from it that grow as it grows. Many goroutines may use it.
type History struct {
	mu      sync.Mutex
	events  []*Event
	bytes   int64
	derived map[any]derived
	// derivedBytes is the sum of those of derived.
	derivedBytes atomic.Int64
}

// A derived value and about how many bytes it takes.
type derived struct {
	value any
	bytes int64
}

// NewHistory makes a history of the given events; it keeps the slice.
func NewHistory(events []*Event) *History { return &History{events: events} }

// Events returns all events so far, in order. The slice stays as it is when
// the history grows; it must not be changed.
func (h *History) Events() []*Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.events)
}

// Len is the number of events so far.
func (h *History) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.events)
}

// Append adds an event at the end. Only a store calls it, after the event is
// durable.
func (h *History) Append(e *Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cap(h.events) == 0 {
		h.events = make([]*Event, 0, 8) // what most first turns have
	}
	h.events = append(h.events, e)
}

// AddBytes counts bytes of stored events. Only a store calls it.
func (h *History) AddBytes(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bytes += n
}

// Bytes is how many bytes the session's events take as JSON in the store, also
// those that are not at hand; 0 is unknown.
func (h *History) Bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// Derive keeps a value that follows from the events, such as the contents that
// an agent's model sees, so that each turn pays only for what is new. extend
// gets the value as it was left by the last call with this key (nil at first)
// and all events so far. It returns the value brought up to date, and about how
// many bytes the value takes besides the events. It runs under the history's
// lock: it must be quick, and must not use the history.
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

// DerivedBytes is about how many bytes the derived values take.
func (h *History) DerivedBytes() int64 { return h.derivedBytes.Load() }

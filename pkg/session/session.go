package session

import (
	"fmt"
	"maps"
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
	// Version is the number of appended events, that is, the last event's Seq.
	Version int64
	// History holds the session's events, or the requested part of them.
	History *History
	// State is the merged state: session keys, and user: and app: keys with
	// their prefixes.
	State *State
	// LastUpdate is when the last event was appended or, without events, when the session was
	// created.
	LastUpdate time.Time
	// Outcome is the stored form of the session's [Outcome]. An append stores it with its event; a
	// session from a list has none and must not be appended to.
	Outcome []byte
}

// New returns a copy of s with a state that has the given keys; it takes ownership of the
// map. Each run has its own session, so both are one allocation.
func New(s Session, state map[string]any) *Session {
	both := &struct {
		session Session
		state   State
	}{session: s}
	both.state.setKeys(state)
	both.session.State = &both.state
	return &both.session
}

// Events returns the session's events in order. The slice must not be changed.
func (s *Session) Events() []*Event { return s.History.Events() }

// EventsBy returns one author's events in order.
func (s *Session) EventsBy(author string) []*Event {
	var es []*Event
	for _, e := range s.Events() {
		if e.Author == author {
			es = append(es, e)
		}
	}
	return es
}

// A History is an append-only event list with cached derived values. It is safe for
// concurrent use.
type History struct {
	mu      sync.Mutex
	events  []*Event
	bytes   int64
	derived map[any]derived
	// derivedBytes is the total size of derived values.
	derivedBytes atomic.Int64
}

// A derived value with its approximate size.
type derived struct {
	value any
	bytes int64
}

// NewHistory creates a history from the given events; it takes ownership of the slice.
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

// Bytes returns the JSON size of all stored events in the session, including those that are
// not loaded; 0 means unknown.
func (h *History) Bytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bytes
}

// Derive caches a value computed from the events, such as the contents for an agent's model,
// so that each turn only processes new events. extend gets the value from the previous call
// with this key (nil at first) and all events. It returns the updated value and its
// approximate size in bytes, without the events. It runs under the history's lock: it must be
// quick and must not use the history.
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

// DerivedBytes returns the approximate size of derived values.
func (h *History) DerivedBytes() int64 { return h.derivedBytes.Load() }

// The customMetadata keys that held the provenance before it had its own column.
const (
	legacyRevisionKey    = "agenthost.revision"
	legacySkippedKey     = "skipped"
	legacyRewindAfterKey = "rewindAfterEventId"
)

// MoveLegacyProvenance moves the record that an older agenthost version wrote from the
// event's customMetadata to its Provenance, which becomes Unverified. That version recorded
// the revision on every event that an app created, but not on those that clients sent with a
// new session: an event without it is Imported.
func (e *Event) MoveLegacyProvenance() {
	p := Provenance{Unverified: true}
	var moved []string
	move := func(key string, into *string, applies bool) {
		if text, ok := e.CustomMetadata[key].(string); ok && applies {
			*into, moved = text, append(moved, key)
		}
	}
	move(legacyRevisionKey, &p.Revision, true)
	move(legacySkippedKey, &p.Skipped, e.Content == nil && e.ErrorCode == "")
	move(legacyRewindAfterKey, &p.RewindAfter, e.Author == UserAuthor && e.Actions.RewindBeforeInvocationID != "")
	p.Imported = p.Revision == "" && !e.isPlainRewind()
	e.Provenance = p
	if len(moved) == 0 {
		return
	}
	rest := maps.Clone(e.CustomMetadata)
	for _, key := range moved {
		delete(rest, key)
	}
	if len(rest) == 0 {
		rest = nil
	}
	e.CustomMetadata = rest
}

// isPlainRewind reports whether the event only rewinds the session: the host wrote such
// events without a revision.
func (e *Event) isPlainRewind() bool {
	return e.Author == UserAuthor && e.Content == nil && e.Actions.RewindBeforeInvocationID != ""
}

// Recorded returns the events that the host itself stored and that were not
// rewound: those that determine how a session continues. It does not change its
// argument.
func Recorded(events []*Event) []*Event { return WithoutImported(WithoutRewound(events)) }

// WithoutImported returns the events that the host itself stored. It does not
// change its argument.
func WithoutImported(events []*Event) []*Event {
	if !slices.ContainsFunc(events, isImported) {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), isImported)
}

func isImported(e *Event) bool { return e.Provenance.Imported }

// RevisionOf returns the revision that an invocation began with, or "" if it is
// unknown.
func RevisionOf(events []*Event, invocation string) string {
	for _, ev := range events {
		if revision := ev.verifiedRevision(); ev.InvocationID == invocation && revision != "" {
			return revision
		}
	}
	return ""
}

// LastRevision returns the revision that created the latest event with a known
// revision, or "".
func LastRevision(events []*Event) string {
	for _, ev := range slices.Backward(events) {
		if revision := ev.verifiedRevision(); revision != "" {
			return revision
		}
	}
	return ""
}

// verifiedRevision returns the event's revision if no client can have written
// it.
func (e *Event) verifiedRevision() string {
	if e.Provenance.Unverified || e.Provenance.Imported {
		return ""
	}
	return e.Provenance.Revision
}

// RewoundFrom returns the index of the first event removed by the rewind at
// events[i]; the rewind removes all events from there up to itself. It is i if
// the rewind names no earlier event. ok is false if events[i] is not a rewind.
func RewoundFrom(events []*Event, i int) (first int, ok bool) {
	target := events[i].Actions.RewindBeforeInvocationID
	if target == "" || events[i].Provenance.Imported {
		return i, false
	}
	if id := events[i].Provenance.RewindAfter; id != "" {
		if last := slices.IndexFunc(events[:i], func(ev *Event) bool { return ev.ID == id }); last >= 0 {
			return last + 1, true
		}
		return i, true
	}
	first = slices.IndexFunc(events[:i], func(ev *Event) bool { return ev.InvocationID == target })
	if first < 0 {
		first = i
	}
	return first, true
}

// WithoutRewound returns the effective events, without rewinds and the events
// that they removed (adk-python flows/llm_flows/contents.py). It does not
// change its argument, and returns it if there are no rewinds: the elements must not be changed.
func WithoutRewound(events []*Event) []*Event {
	if !slices.ContainsFunc(events, func(ev *Event) bool { return ev.Actions.RewindBeforeInvocationID != "" }) {
		return slices.Clip(events)
	}
	var kept []*Event
	for i := len(events) - 1; i >= 0; i-- {
		first, ok := RewoundFrom(events, i)
		if !ok {
			kept = append(kept, events[i])
		}
		i = first
	}
	slices.Reverse(kept)
	return kept
}

package session

import (
	"maps"
	"slices"
)

// The customMetadata keys of the provenance before it had its own column.
const (
	legacyRevisionKey    = "agenthost.revision"
	legacySkippedKey     = "skipped"
	legacyRewindAfterKey = "rewindAfterEventId"
)

// MoveLegacyProvenance moves the record of an older version of agenthost from
// the event's customMetadata to its Provenance, which becomes Unverified.
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
	e.CustomMetadata, e.Provenance = rest, p
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
// change its argument.
func WithoutRewound(events []*Event) []*Event {
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

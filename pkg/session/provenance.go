package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Provenance is the host's record about an event: its origin and reason. It is
// not part of the event's JSON form, so neither clients nor apps can write it;
// stores keep it next to the event.
type Provenance struct {
	// Revision is the app revision that created the event; empty if the app has
	// none or no app created it.
	Revision string `json:"revision,omitempty"`
	// Imported reports that a client supplied the event for a new session.
	// Models read it as history; nothing else relies on it.
	Imported bool `json:"imported,omitempty"`
	// Skipped is the reason why an agent was skipped; empty for all other
	// events.
	Skipped string `json:"skipped,omitempty"`
	// RewindAfter is the id of the last event that a rewind keeps; empty for a
	// rewind of whole invocations. ADK has no such field: other programs rewind
	// the invocation of rewindBeforeInvocationId.
	RewindAfter string `json:"rewindAfterEventId,omitempty"`
	// Unverified reports that the record was read from the event's
	// customMetadata, which agenthost used before schema version 6 and which
	// clients could write. It is shown but selects no revision.
	Unverified bool `json:"unverified,omitempty"`
}

// Append appends the JSON form to dst.
func (p Provenance) Append(dst []byte) []byte {
	w := writer{b: dst}
	w.openBracket('{')
	w.writeOptionalString("revision", p.Revision)
	w.writeOptionalFlag("imported", p.Imported)
	w.writeOptionalString("skipped", p.Skipped)
	w.writeOptionalString("rewindAfterEventId", p.RewindAfter)
	w.writeOptionalFlag("unverified", p.Unverified)
	w.closeBracket('}')
	return w.b
}

// DecodeProvenance decodes the output of Append.
func DecodeProvenance(text []byte) (p Provenance, err error) {
	if string(text) == "{}" {
		return p, nil
	}
	if err = json.Unmarshal(text, &p); err != nil {
		err = fmt.Errorf("decoding provenance: %w", err)
	}
	return p, err
}

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

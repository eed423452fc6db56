package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Provenance is what the host knows about an event: where it comes from, and
// why it is there. It is no part of the event's JSON form, so neither a client
// nor an app can write it; stores keep it next to the event.
type Provenance struct {
	// Revision is the revision of the app that made the event; empty when the
	// app has none, or when no app made it.
	Revision string `json:"revision,omitempty"`
	// Imported says that a client wrote the event into a new session. Models
	// read it as history; nothing else relies on it.
	Imported bool `json:"imported,omitempty"`
	// Skipped is why an agent did nothing; empty for every other event.
	Skipped string `json:"skipped,omitempty"`
	// RewindAfter is the id of the last event that a rewind keeps; empty for a
	// rewind of whole invocations. ADK has no field for it: a program that does
	// not know it takes back the invocation of rewindBeforeInvocationId.
	RewindAfter string `json:"rewindAfterEventId,omitempty"`
	// Unverified says that all this was read from the event's customMetadata,
	// where agenthost kept it before version 6 of the schema and where clients
	// could write too. It is shown, and chooses no revision.
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

// DecodeProvenance reads what Append wrote.
func DecodeProvenance(text []byte) (p Provenance, err error) {
	if string(text) == "{}" {
		return p, nil
	}
	if err = json.Unmarshal(text, &p); err != nil {
		err = fmt.Errorf("reading the provenance: %w", err)
	}
	return p, err
}

// The keys of customMetadata that held the provenance before it had a column.
const (
	legacyRevisionKey    = "agenthost.revision"
	legacySkippedKey     = "skipped"
	legacyRewindAfterKey = "rewindAfterEventId"
)

// MoveLegacyProvenance moves what an older version of agenthost noted in the
// event's customMetadata to its Provenance, which becomes Unverified.
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

// Recorded returns the events that the host itself stored and that no rewind took
// back: all that decides how a session goes on. The list given stays as it is.
func Recorded(events []*Event) []*Event { return WithoutImported(WithoutRewound(events)) }

// WithoutImported returns the events that the host itself stored. The list given
// stays as it is.
func WithoutImported(events []*Event) []*Event {
	if !slices.ContainsFunc(events, isImported) {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), isImported)
}

func isImported(e *Event) bool { return e.Provenance.Imported }

// RevisionOf is the revision that an invocation began with; empty when it is
// not known.
func RevisionOf(events []*Event, invocation string) string {
	for _, ev := range events {
		if revision := ev.verifiedRevision(); ev.InvocationID == invocation && revision != "" {
			return revision
		}
	}
	return ""
}

// LastRevision is the revision that made the last event of which it is known;
// empty when it is known of none.
func LastRevision(events []*Event) string {
	for _, ev := range slices.Backward(events) {
		if revision := ev.verifiedRevision(); revision != "" {
			return revision
		}
	}
	return ""
}

// verifiedRevision is the event's revision where no client can have written it.
func (e *Event) verifiedRevision() string {
	if e.Provenance.Unverified || e.Provenance.Imported {
		return ""
	}
	return e.Provenance.Revision
}

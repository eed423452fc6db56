package session

import (
	"strings"
	"testing"
)

// The JSON form of an event contains its provenance only on request, and provenance
// is never read from it.
func TestProvenanceForm(t *testing.T) {
	ev := &Event{ID: "e", Author: "a", Provenance: Provenance{Revision: "r1", Imported: true}}
	plain, err := AppendEvent(nil, ev)
	if err != nil || strings.Contains(string(plain), "provenance") {
		t.Errorf("AppendEvent = %s, %v", plain, err)
	}
	const want = `"provenance":{"revision":"r1","imported":true}`
	full, err := Form{Provenance: true}.AppendEvent(nil, ev)
	if err != nil || strings.Count(string(full), want) != 1 {
		t.Errorf("AppendEvent with provenance = %s, %v; want %s", full, err, want)
	}
	read := &Event{}
	if err := read.UnmarshalJSON(full); err != nil || read.Provenance != (Provenance{}) {
		t.Errorf("read back: %+v, %v; want no provenance", read.Provenance, err)
	}
	read.Provenance = Provenance{Revision: "r2"}
	again, err := Form{Provenance: true}.AppendEvent(nil, read)
	if err != nil || !strings.Contains(string(again), `"r2"`) || strings.Contains(string(again), `"r1"`) {
		t.Errorf("a client's field of that name is written: %s, %v", again, err)
	}
}

// A revision that a client may have written is never chosen.
func TestRevisionUnverified(t *testing.T) {
	events := []*Event{
		{InvocationID: "i", Provenance: Provenance{Revision: "imported", Imported: true}},
		{InvocationID: "i", Provenance: Provenance{Revision: "good"}},
		{InvocationID: "i", Provenance: Provenance{Revision: "old", Unverified: true}},
	}
	if got := RevisionOf(events, "i"); got != "good" {
		t.Errorf("RevisionOf = %q, want good", got)
	}
	if got := LastRevision(events); got != "good" {
		t.Errorf("LastRevision = %q, want good", got)
	}
}

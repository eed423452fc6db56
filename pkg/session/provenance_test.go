package session

import (
	"strings"
	"testing"
)

// An event's JSON form contains its provenance only on request, and provenance is never read
// from it.
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

// TestWithoutRewound writes an event as id:invocation, a rewind to before an
// invocation as <invocation, and one to an event as ^id.
func TestWithoutRewound(t *testing.T) {
	tests := []struct{ name, events, want string }{
		{"none", "a:1 b:1", "a b"},
		{"an invocation", "a:1 b:2 c:2 <2", "a"},
		{"all", "a:1 b:2 <1", ""},
		{"no such invocation", "a:1 <9 b:2", "a b"},
		{"and on", "a:1 b:2 <2 c:3", "a c"},
		{"twice", "a:1 b:2 <2 c:3 <3 d:4", "a d"},
		{"what was taken back", "a:1 b:2 c:3 <2 d:4 <3", "a b"},
		{"to an event", "a:1 b:1 c:1 ^a", "a"},
		{"to an event that was taken back", "a:1 b:2 c:2 <2 d:3 ^b", "a b"},
		{"to a rewind", "a:1 b:2 <2 c:3 ^r2", "a"},
		{"to no event", "a:1 ^z b:2", "a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var events []*Event
			for i, word := range strings.Fields(tt.events) {
				ev := &Event{ID: "r" + string(rune('0'+i)), InvocationID: "r"}
				switch word[0] {
				case '<':
					ev.Actions.RewindBeforeInvocationID = word[1:]
				case '^':
					ev.Actions.RewindBeforeInvocationID = "some"
					ev.Provenance.RewindAfter = word[1:]
				default:
					ev.ID, ev.InvocationID, _ = strings.Cut(word, ":")
				}
				events = append(events, ev)
			}
			var got []string
			for _, ev := range WithoutRewound(events) {
				got = append(got, ev.ID)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("WithoutRewound(%s) = %q, want %q", tt.events, s, tt.want)
			}
		})
	}
}

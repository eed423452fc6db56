package runtime

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/session"
)

// visibleInLines returns the contents that an agent sees of events, one per line.
func visibleInLines(t *testing.T, who viewKey, include IncludeContents, lines string) string {
	t.Helper()
	var events []*session.Event
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		ev := new(session.Event)
		if err := json.Unmarshal([]byte(line), ev); err != nil {
			t.Fatal(err)
		}
		events = append(events, ev)
	}
	return string(visibleContents(t, who, include, events))
}

// TestContentsTranscription: consecutive transcriptions of one speaker are merged
// into one text, across blank ones. Another speaker or any other visible event ends
// the text (semantics 2.6).
func TestContentsTranscription(t *testing.T) {
	const events = `
{"author":"user","inputTranscription":{"text":"hel"}}
{"author":"user","inputTranscription":{"text":"lo"}}
{"author":"b","outputTranscription":{"text":" "}}
{"author":"b","outputTranscription":{"text":"I am"}}
{"author":"b","outputTranscription":{"text":" b"}}
{"author":"a","outputTranscription":{"text":"I am a"}}
{"author":"user","content":{"role":"user","parts":[{"text":"typed"}]},"inputTranscription":{"text":"ignored"}}
{"author":"user","inputTranscription":{"text":""}}
{"author":"user","inputTranscription":{"text":"bye"}}`
	for _, c := range []struct {
		name    string
		include IncludeContents
		want    string
	}{
		{"all", IncludeDefault, `[{"parts":[{"text":"hello"}],"role":"user"},{"parts":[{"text":"For context:"},{"text":"[b] said:  I am b"}],"role":"user"},{"parts":[{"text":"I am a"}],"role":"model"},{"parts":[{"text":"typed"}],"role":"user"},{"parts":[{"text":"bye"}],"role":"user"}]`},
		{"turn", IncludeNone, `[{"parts":[{"text":"bye"}],"role":"user"}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, visibleInLines(t, viewKey{agent: "a"}, c.include, events)); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

// TestContentsTranscriptionShared: returned contents do not change when more
// transcriptions are added.
func TestContentsTranscriptionShared(t *testing.T) {
	v := newView(viewKey{agent: "a"})
	newEvent := func(text string) *session.Event {
		ev := new(session.Event)
		if err := json.Unmarshal([]byte(`{"author":"user","inputTranscription":{"text":"`+text+`"}}`), ev); err != nil {
			t.Fatal(err)
		}
		return ev
	}
	v.addEvent(newEvent("one"))
	before, err := v.currentContents()
	if err != nil {
		t.Fatal(err)
	}
	v.addEvent(newEvent(" two"))
	after, err := v.currentContents()
	if err != nil {
		t.Fatal(err)
	}
	if got := before[0].Parts[0].Text + "|" + after[0].Parts[0].Text; got != "one|one two" {
		t.Errorf("before and after: %s, want one|one two", got)
	}
}

// TestContentsLive: an agent sees its own events of a live conversation as those of
// another agent (semantics 2.6).
func TestContentsLive(t *testing.T) {
	const events = `{"author":"a","liveSessionId":"l","content":{"role":"model","parts":[{"text":"hi"}]}}`
	const want = `[{"parts":[{"text":"For context:"},{"text":"[a] said: hi"}],"role":"user"}]`
	if diff := cmp.Diff(want, visibleInLines(t, viewKey{agent: "a"}, IncludeDefault, events)); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

// TestContentsScoped: events of a task's scope are visible only within the task
// (semantics 2.6).
func TestContentsScoped(t *testing.T) {
	const events = `
{"author":"user","content":{"role":"user","parts":[{"text":"to all"}]}}
{"author":"user","isolationScope":"task-1","content":{"role":"user","parts":[{"text":"to the task"}]}}`
	const want = `[{"parts":[{"text":"to all"}],"role":"user"}]`
	for _, include := range []IncludeContents{IncludeDefault, IncludeNone} {
		if diff := cmp.Diff(want, visibleInLines(t, viewKey{agent: "a"}, include, events)); diff != "" {
			t.Errorf("%s: contents (-want +got):\n%s", include, diff)
		}
	}
}

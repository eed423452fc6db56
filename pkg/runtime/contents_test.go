package runtime

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// readCorpusFile reads a file of test data from other projects.
func readCorpusFile(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("AGENTHOST_CORPUS")
	if dir == "" {
		dir = "../../../shared/corpus"
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("SKIPPED: no corpus: set AGENTHOST_CORPUS (%v)", err)
	}
	return b
}

// scopedTasks are the cases of agents that have a task's isolation scope. They
// belong to ADK 2's node path, and there is one run path here, the classic one,
// for every root: no agent has a scope (TestContentsScoped shows that what has
// one is not seen).
var scopedTasks = []string{"IsolationScope", "StrictIsolation", "TaskInput"}

// decided are intentional differences: arguments and results of other agents'
// tools are formatted as JSON, and without a message of the current turn
// the contents are empty (adk-go falls back to the whole history).
var decided = []string{"agentTransfer.include_contents=", "other_agent_function_", "robot.include_contents=none"}

// TestContentsCorpus replays what the unit tests of adk-python and adk-go
// expect a model to see.
func TestContentsCorpus(t *testing.T) {
	type contentCase struct {
		Name            string
		Agent           string
		IncludeContents string
		Branch          string
		Events          []json.RawMessage
		Expected        json.RawMessage
		Asserts         []contentAssert
		Model           any
	}
	var cases []contentCase
	if err := json.Unmarshal(readCorpusFile(t, "contents.json"), &cases); err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, c := range cases {
		if containsAny(c.Name, scopedTasks) {
			continue
		}
		played++
		name := strings.ReplaceAll(c.Name, "/", ".")
		t.Run(name, func(t *testing.T) {
			var events []*session.Event
			for _, raw := range c.Events {
				ev := new(session.Event)
				if err := json.Unmarshal(raw, ev); err != nil {
					t.Fatal(err)
				}
				events = append(events, ev)
			}
			_, keeps := c.Model.(map[string]any)
			got := decodeGeneric(t, visibleContents(t, viewKey{agent: c.Agent, branch: c.Branch, keepIDs: keeps}, IncludeContents(c.IncludeContents), events))
			diff := failedAsserts(got, c.Asserts)
			if want := decodeGeneric(t, c.Expected); want != nil {
				diff = cmp.Diff(want, got)
			}
			if differs := diff != ""; differs != containsAny(name, decided) {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
	if played < 30 {
		t.Errorf("played %d cases of the corpus, want 30 at least", played)
	}
}

func containsAny(s string, subs []string) bool {
	for _, sub := range subs {
		if strings.Contains(s, sub) {
			return true
		}
	}
	return false
}

// visibleContents takes the events in one by one, as a session grows: the contents must
// be the same as if they had been there from the start.
func visibleContents(t *testing.T, who viewKey, include IncludeContents, events []*session.Event) []byte {
	t.Helper()
	h := session.NewHistory(nil)
	inv := &Invocation{
		run:    &run{sess: &session.Session{History: h}},
		node:   &node{agent: NewLLM(who.agent, nil)},
		branch: who.branch,
	}
	if who.keepIDs {
		inv.node.llm = idKeepingModel{}
	}
	var contents []*genai.Content
	var err error
	for _, ev := range events {
		h.Append(ev)
		contents, err = inv.buildContents(include)
	}
	if err != nil {
		t.Fatal(err)
	}
	return encodeContents(t, contents)
}

func encodeContents(t *testing.T, contents []*genai.Content) []byte {
	t.Helper()
	list := []json.RawMessage{}
	for _, c := range contents {
		b, err := session.EncodeContent(c)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decodeGeneric is JSON without what two encoders may write differently: empty args
// and responses.
func decodeGeneric(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return dropEmpty(v)
}

func dropEmpty(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = dropEmpty(v[i])
		}
	case map[string]any:
		for k, e := range v {
			if m, ok := dropEmpty(e).(map[string]any); ok && len(m) == 0 {
				delete(v, k)
			}
		}
	}
	return v
}

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

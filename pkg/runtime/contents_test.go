package runtime

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// TestADKContents: an agent sees the events as in ADK, by cases restated from adk-python's and
// adk-go's rules. A case's headline states an intentional difference.
func TestADKContents(t *testing.T) {
	files, err := filepath.Glob("testdata/adk_contents/*.txtar")
	if err != nil || len(files) < 31 {
		t.Fatalf("%d cases, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var view struct {
				Agent, Branch, Include string
				KeepIDs                bool
			}
			if err := json.Unmarshal(archive.Files[0].Data, &view); err != nil {
				t.Fatal(err)
			}
			who := viewKey{agent: view.Agent, branch: view.Branch, keepIDs: view.KeepIDs}
			got := visibleInLines(t, who, IncludeContents(view.Include), string(archive.Files[1].Data))
			want := "[" + strings.ReplaceAll(strings.TrimSpace(string(archive.Files[2].Data)), "\n", ",") + "]"
			if diff := cmp.Diff(decodeGeneric(t, []byte(want)), decodeGeneric(t, []byte(got))); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

// visibleContents takes the events in one by one, as a session grows: the contents must
// be the same as if they had been there from the start.
func visibleContents(t *testing.T, who viewKey, include IncludeContents, events []*session.Event) []byte {
	t.Helper()
	h := session.NewHistory(nil)
	inv := &Invocation{
		run:    &run{turn: turn{sess: &session.Session{History: h}}},
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

// TestContentsTranscription: one speaker's consecutive transcriptions are merged into one text,
// across blank ones. Another speaker or any other visible event ends the text (semantics 2.6).
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

// TestContentsParallelAnswers: the responses to parallel calls to one tool stay in call order,
// whatever the answer order: models match responses without IDs by their order.
func TestContentsParallelAnswers(t *testing.T) {
	const calls = `{"author":"a","content":{"role":"model","parts":[{"functionCall":{"id":"adk-1","name":"ask","args":{"q":1}}},{"functionCall":{"id":"adk-2","name":"ask","args":{"q":2}}}]}}` + "\n"
	answer := func(id, is string) string {
		return `{"author":"user","content":{"role":"user","parts":[{"functionResponse":{"id":"` + id + `","name":"ask","response":{"is":"` + is + `"}}}]}}` + "\n"
	}
	const asked = `[{"parts":[{"functionCall":{"args":{"q":1},"name":"ask"}},{"functionCall":{"args":{"q":2},"name":"ask"}}],"role":"model"},{"parts":[`
	const two = `{"functionResponse":{"name":"ask","response":{"is":"two"}}}],"role":"user"}]`
	for _, c := range []struct{ name, events, want string }{
		{"both", calls + answer("adk-2", "two") + answer("adk-1", "one"), asked + `{"functionResponse":{"name":"ask","response":{"is":"one"}}},` + two},
		{
			"one", calls + answer("adk-2", "two"),
			asked + `{"functionResponse":{"name":"ask","response":{"status":"No response to this call is available: it may still be pending, or the call was interrupted."}}},` + two,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, visibleInLines(t, viewKey{agent: "a"}, IncludeDefault, c.events)); diff != "" {
				t.Errorf("contents (-want +got):\n%s", diff)
			}
		})
	}
}

// TestContentsLive: an agent sees its own events in a live conversation as another agent's
// (semantics 2.6).
func TestContentsLive(t *testing.T) {
	const events = `{"author":"a","liveSessionId":"l","content":{"role":"model","parts":[{"text":"hi"}]}}`
	const want = `[{"parts":[{"text":"For context:"},{"text":"[a] said: hi"}],"role":"user"}]`
	if diff := cmp.Diff(want, visibleInLines(t, viewKey{agent: "a"}, IncludeDefault, events)); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

// TestContentsScoped: events in a task's scope are visible only within the task (semantics 2.6).
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

// idKeepingModel is a model whose requests have every call ID.
type idKeepingModel struct{ model.LLM }

func (idKeepingModel) KeepsCallIDs() bool { return true }

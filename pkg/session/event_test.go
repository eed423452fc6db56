package session

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func contentOf(parts ...*genai.Part) *genai.Content {
	return &genai.Content{Role: genai.RoleModel, Parts: parts}
}

// The rule is adk-python's: an event is final unless it calls, answers a call, is partial or
// ends in a code result; skipping the summary or waiting for a long-running call makes any
// event final.
func TestIsFinal(t *testing.T) {
	text := &genai.Part{Text: "a"}
	call := &genai.Part{FunctionCall: &genai.FunctionCall{Name: "f"}}
	answer := &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: "f"}}
	code := &genai.Part{ExecutableCode: &genai.ExecutableCode{Code: "1+1"}}
	result := &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Output: "2"}}
	event := func(parts ...*genai.Part) *Event {
		return &Event{Response: model.Response{Content: contentOf(parts...)}}
	}
	partial := func(e *Event) *Event { e.Partial = true; return e }
	skips := func(e *Event) *Event { e.Actions.SkipSummarization = true; return e }
	waits := func(e *Event, ids ...string) *Event { e.LongRunningToolIDs = ids; return e }

	tests := []struct {
		name string
		in   *Event
		want bool
	}{
		{"text", event(text), true},
		{"no content", &Event{}, true},
		{"no parts", event(), true},
		{"only a state delta", &Event{Actions: Actions{StateDelta: map[string]any{"a": 1}}}, true},
		{"an error", &Event{Response: model.Response{ErrorCode: "SAFETY"}}, true},
		{"a thought", event(&genai.Part{Text: "hm", Thought: true}), true},
		{"partial text", partial(event(text)), false},
		{"partial nothing", partial(&Event{}), false},
		{"a call", event(call), false},
		{"text and a call", event(text, call, text), false},
		{"an answer", event(answer), false},
		{"code", event(code), true},
		{"the result of code", event(code, result), false},
		{"text after the result", event(code, result, text), true},
		{"an answer that is not summarized", skips(event(answer)), true},
		{"partial, not summarized", skips(partial(event(text))), true},
		{"a call that waits", waits(event(call), "c1"), true},
		{"a partial call that waits", waits(partial(event(call)), "c1"), true},
		{"a call with an empty list", waits(event(call), []string{}...), false},
		{"a result of code, not summarized", skips(event(result)), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.in.IsFinal(); got != tt.want {
				t.Errorf("IsFinal() = %v, want %v", got, tt.want)
			}
		})
	}
}

// The node's name is the last one in its path: callbacks have their own paths. For an event
// without a path, the node is its author.
func TestNodeName(t *testing.T) {
	for path, want := range map[string]string{
		"":                          "flow",
		"flow@1":                    "flow",
		"flow@1/up@2":               "up",
		"flow@1/up@1/up@3":          "up",
		"flow@1/up@1/(after_agent)": "up",
		"coord@1/order@adk-1":       "order",
		"(no name)":                 "flow",
	} {
		if got := (&Event{Author: "flow", NodePath: path}).NodeName(); got != want {
			t.Errorf("node of %q = %s, want %s", path, got, want)
		}
	}
}

// People read an event's text, or the output with which the root ends.
func TestResultText(t *testing.T) {
	value := func(paths ...string) *Event { return &Event{Output: map[string]any{"n": 1}, OutputFor: paths} }
	message := value("flow@1/up@1", "flow@1")
	message.Content = contentOf(&genai.Part{Text: "one"})
	for name, tt := range map[string]struct {
		event *Event
		want  string
	}{
		"text":               {message, "one"},
		"output of the root": {value("flow@1/up@1", "flow@1"), `{"n":1}`},
		"output of a node":   {value("flow@1/up@1"), ""},
		"neither":            {&Event{OutputFor: []string{"flow@1"}}, ""},
	} {
		if got := tt.event.ResultText(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestEventParts(t *testing.T) {
	e := &Event{Response: model.Response{Content: contentOf(
		&genai.Part{Text: "hm", Thought: true},
		&genai.Part{Text: "a"},
		&genai.Part{FunctionCall: &genai.FunctionCall{Name: "f"}},
		&genai.Part{FunctionResponse: &genai.FunctionResponse{Name: "g"}},
	)}}
	if got := e.Text(); got != "a" {
		t.Errorf("Text() = %q, want a", got)
	}
	if diff := cmp.Diff([]*genai.FunctionCall{{Name: "f"}}, e.Calls()); diff != "" {
		t.Errorf("Calls() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]*genai.FunctionResponse{{Name: "g"}}, e.Responses()); diff != "" {
		t.Errorf("Responses() (-want +got):\n%s", diff)
	}
}

// The answers to parallel calls become one event: maps are merged deeply, the later value
// wins, flags and widgets add up.
func TestActionsMerge(t *testing.T) {
	sure := &Confirmation{Hint: "sure?"}
	older, newer := &Compaction{EndTimestamp: 1}, &Compaction{EndTimestamp: 2}
	widgets := func(s string) Actions { return Actions{RenderUIWidgets: json.RawMessage(s)} }

	tests := []struct {
		name       string
		a, b, want Actions
	}{
		{"nothing", Actions{}, Actions{}, Actions{}},
		{
			"state keys",
			Actions{StateDelta: map[string]any{"a": 1, "b": 1}},
			Actions{StateDelta: map[string]any{"b": 2, "c": nil}},
			Actions{StateDelta: map[string]any{"a": 1, "b": 2, "c": nil}},
		},
		{
			"state goes deep",
			Actions{StateDelta: map[string]any{"m": map[string]any{"x": 1, "in": map[string]any{"p": 1}}, "l": []any{1}}},
			Actions{StateDelta: map[string]any{"m": map[string]any{"y": 2, "in": map[string]any{"q": 2}}, "l": []any{2}}},
			Actions{StateDelta: map[string]any{"m": map[string]any{"x": 1, "y": 2, "in": map[string]any{"p": 1, "q": 2}}, "l": []any{2}}},
		},
		{
			"a map replaces a value and the other way round",
			Actions{StateDelta: map[string]any{"a": 1, "b": map[string]any{"x": 1}}},
			Actions{StateDelta: map[string]any{"a": map[string]any{"x": 1}, "b": nil}},
			Actions{StateDelta: map[string]any{"a": map[string]any{"x": 1}, "b": nil}},
		},
		{
			"into nothing",
			Actions{},
			Actions{StateDelta: map[string]any{"a": 1}, ArtifactDelta: map[string]int{"f": 0}, AgentState: map[string]any{}},
			Actions{StateDelta: map[string]any{"a": 1}, ArtifactDelta: map[string]int{"f": 0}, AgentState: map[string]any{}},
		},
		{
			"artifacts and requests",
			Actions{ArtifactDelta: map[string]int{"f": 0, "g": 3}, RequestedAuthConfigs: map[string]any{"c1": 1}},
			Actions{ArtifactDelta: map[string]int{"f": 1}, RequestedAuthConfigs: map[string]any{"c2": 2}, RequestedToolConfirmations: map[string]*Confirmation{"c3": sure}},
			Actions{ArtifactDelta: map[string]int{"f": 1, "g": 3}, RequestedAuthConfigs: map[string]any{"c1": 1, "c2": 2}, RequestedToolConfirmations: map[string]*Confirmation{"c3": sure}},
		},
		{
			"flags add up",
			Actions{SkipSummarization: true},
			Actions{Escalate: true, EndOfAgent: true},
			Actions{SkipSummarization: true, Escalate: true, EndOfAgent: true},
		},
		{
			"the later one wins",
			Actions{TransferToAgent: "a", Route: 1, SetModelResponse: 1, RewindBeforeInvocationID: "e-1", Compaction: older},
			Actions{TransferToAgent: "b", Route: 2, SetModelResponse: 2, RewindBeforeInvocationID: "e-2", Compaction: newer},
			Actions{TransferToAgent: "b", Route: 2, SetModelResponse: 2, RewindBeforeInvocationID: "e-2", Compaction: newer},
		},
		{
			"silence changes nothing",
			Actions{TransferToAgent: "a", Route: 1, SetModelResponse: 1, RewindBeforeInvocationID: "e-1", Compaction: older, SkipSummarization: true},
			Actions{},
			Actions{TransferToAgent: "a", Route: 1, SetModelResponse: 1, RewindBeforeInvocationID: "e-1", Compaction: older, SkipSummarization: true},
		},
		{"widgets add up", widgets(`[{"id":"a"}]`), widgets(` [ {"id":"b"}, {"id":"c"} ] `), widgets(`[{"id":"a"},{"id":"b"}, {"id":"c"}]`)},
		{"widgets to none", widgets(`[]`), widgets(`[{"id":"b"}]`), widgets(`[{"id":"b"}]`)},
		{"no widgets", widgets(`[{"id":"a"}]`), widgets(``), widgets(`[{"id":"a"}]`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.a
			got.Merge(&tt.b)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Merge (-want +got):\n%s", diff)
			}
		})
	}
}

func TestActionsMergeKeepsArgument(t *testing.T) {
	var sum Actions
	first := &Actions{StateDelta: map[string]any{"m": map[string]any{"x": 1}}, ArtifactDelta: map[string]int{"f": 0}}
	sum.Merge(first)
	sum.Merge(&Actions{StateDelta: map[string]any{"m": map[string]any{"y": 2}, "n": 1}, ArtifactDelta: map[string]int{"f": 1}})

	want := &Actions{StateDelta: map[string]any{"m": map[string]any{"x": 1}}, ArtifactDelta: map[string]int{"f": 0}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("what was merged first has changed (-want +got):\n%s", diff)
	}
}

func TestActionsSet(t *testing.T) {
	var a Actions
	a.SetState("k", "v")
	a.SetState("gone", nil)
	a.SetArtifact("f", 0)
	a.SetArtifact("f", 1)
	want := Actions{StateDelta: map[string]any{"k": "v", "gone": nil}, ArtifactDelta: map[string]int{"f": 1}}
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("the actions (-want +got):\n%s", diff)
	}
}

// TestEventSize: an event with the header from Go's allocator fits into 640 bytes. Each chunk in
// a stream allocates one, and the next class has 704. One-byte fields are next to each other.
func TestEventSize(t *testing.T) {
	if size := reflect.TypeFor[Event]().Size() + 8; size > 640 {
		t.Errorf("an event takes %d bytes, want at most 640", size)
	}
}

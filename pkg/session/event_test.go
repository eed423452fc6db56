package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

func contentOf(parts ...*genai.Part) *genai.Content {
	return &genai.Content{Role: genai.RoleModel, Parts: parts}
}

// The rule is that of adk-python: an event is final unless it calls, answers a
// call, is partial or ends in the result of code; skipping the summary or
// waiting for a long-running call makes any event final.
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

package runtime_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// TestPending: unanswered requests are grouped by their event; rewound requests
// are not pending.
func TestPending(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f", "g"), Tools: []tool.Tool{new(confirmingTool).withName("f"), new(confirmingTool).withName("g")}}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	ids := confirmationIDs(t, e, key)
	formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": false}, ids[0])))
	formatRun(e.Host.Run(t.Context(), userMessage(key, "again")))
	ids = append(ids[1:2], confirmationIDs(t, e, key)[2:]...)
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, open := range runtime.Pending(sess.Events()) {
		var row []string
		for _, c := range open.Calls {
			row = append(row, c.ID)
		}
		got = append(got, row)
	}
	if diff := cmp.Diff([][]string{ids[:1], ids[1:]}, got); diff != "" {
		t.Errorf("Pending (-want +got):\n%s", diff)
	}
	first := sess.Events()[0].InvocationID
	back := &session.Event{ID: "back", InvocationID: "e-back", Author: "user", Actions: session.Actions{RewindBeforeInvocationID: first}}
	if err := e.Store.Sessions.Append(t.Context(), sess, back); err != nil {
		t.Fatal(err)
	}
	if got := runtime.Pending(sess.Events()); len(got) != 0 {
		t.Errorf("Pending after the rewind = %v, want none", got)
	}
}

// TestPendingCalls: calls of long-running tools are pending until the user answers
// them, unless their own result is a failure.
func TestPendingCalls(t *testing.T) {
	called := func(ids ...string) *session.Event {
		ev := &session.Event{Author: "a", InvocationID: "i1", LongRunningToolIDs: ids}
		ev.Content = &genai.Content{}
		for _, id := range append(ids, "quick") {
			ev.Content.Parts = append(ev.Content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: "f"}})
		}
		return ev
	}
	answered := func(author, id, key string) *session.Event {
		ev := &session.Event{Author: author, InvocationID: "i1"}
		ev.Content = &genai.Content{Parts: []*genai.Part{
			{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "f", Response: map[string]any{key: "x"}}},
		}}
		return ev
	}
	for name, c := range map[string]struct {
		events []*session.Event
		want   string
	}{
		"one":             {[]*session.Event{called("c1")}, "[[c1]]"},
		"two of an event": {[]*session.Event{called("c1", "c2")}, "[[c1 c2]]"},
		"two events":      {[]*session.Event{called("c1"), called("c2")}, "[[c1] [c2]]"},
		"answered":        {[]*session.Event{called("c1", "c2"), answered("user", "c1", "result")}, "[[c2]]"},
		"answered twice":  {[]*session.Event{called("c1"), answered("user", "c1", "error"), answered("user", "c1", "result")}, "[]"},
		"a ticket":        {[]*session.Event{called("c1"), answered("a", "c1", "status")}, "[[c1]]"},
		"failed":          {[]*session.Event{called("c1"), answered("a", "c1", "error")}, "[]"},
		"approved":        {[]*session.Event{called("c1"), answered("a", "c1", "error"), answered("a", "c1", "status")}, "[[c1]]"},
		"an id again":     {[]*session.Event{called("c1"), answered("user", "c1", "result"), called("c1")}, "[[c1]]"},
		"rewound":         {[]*session.Event{called("c1"), {Author: "user", InvocationID: "i2", Actions: session.Actions{RewindBeforeInvocationID: "i1"}}}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			ids := [][]string{}
			for _, w := range runtime.Pending(c.events) {
				var row []string
				for _, call := range w.Calls {
					row = append(row, call.ID)
				}
				ids = append(ids, row)
			}
			if got := fmt.Sprint(ids); got != c.want {
				t.Errorf("Pending = %s, want %s", got, c.want)
			}
		})
	}
}

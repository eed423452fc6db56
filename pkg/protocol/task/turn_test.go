package task

import (
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

func newEvent(invocation, author string, c *genai.Content) *session.Event {
	ev := &session.Event{InvocationID: invocation, Author: author, Timestamp: time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)}
	ev.Content = c
	return ev
}

// A turn begins with its invocation's message and ends before the next one; the answers to the agent's
// questions belong to it. It has ended if its last event is an answer or an error, and was canceled if
// that event reports it. A change of the state, such as a title, belongs to no turn.
func TestFindTurn(t *testing.T) {
	user := func(id string) *session.Event { return newEvent(id, session.UserAuthor, model.UserText("go")) }
	text := func(id string) *session.Event { return newEvent(id, "a", model.ModelText("done")) }
	asks := newEvent("1", "a", &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "q", Name: "ask"}}}})
	asks.LongRunningToolIDs = []string{"q"}
	answered := newEvent("2", session.UserAuthor, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "q", Name: "ask", Response: map[string]any{"result": "x"}}}}})
	calls := newEvent("1", "a", &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c", Name: "work"}}}})
	stopped := newEvent("1", "a", &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "c", Name: "work", Response: map[string]any{"error": runtime.AbortedCallText}}}}})
	aborted := newEvent("1", "a", nil)
	aborted.ErrorCode = runtime.CodeAborted
	failed := newEvent("1", "a", nil)
	failed.ErrorCode = "MODEL_FAILED"
	for name, tt := range map[string]struct {
		events                  []*session.Event
		length, pending, answer int
		ended, canceled, last   bool
	}{
		"unknown":       {[]*session.Event{user("2"), text("2")}, 0, 0, 0, false, false, false},
		"no message":    {[]*session.Event{text("1")}, 0, 0, 0, false, false, false},
		"only started":  {[]*session.Event{user("1")}, 1, 0, 0, false, false, true},
		"answered":      {[]*session.Event{user("1"), text("1")}, 2, 0, 1, true, false, true},
		"a later turn":  {[]*session.Event{user("0"), text("0"), user("1"), text("1"), user("2")}, 2, 0, 1, true, false, false},
		"asks":          {[]*session.Event{user("1"), asks}, 2, 1, 1, true, false, true},
		"after answers": {[]*session.Event{user("1"), asks, answered, text("2")}, 4, 0, 1, true, false, true},
		"in a call":     {[]*session.Event{user("1"), calls}, 2, 0, 1, false, false, true},
		"call stopped":  {[]*session.Event{user("1"), calls, stopped}, 3, 0, 2, false, true, true},
		"aborted":       {[]*session.Event{user("1"), aborted}, 2, 0, 1, true, true, true},
		"titled":        {[]*session.Event{user("1"), text("1"), newEvent("p", session.UserAuthor, nil)}, 2, 0, 1, true, false, true},
		"titled open":   {[]*session.Event{user("1"), asks, newEvent("p", session.UserAuthor, nil)}, 2, 1, 1, true, false, true},
		"failed":        {[]*session.Event{user("1"), failed}, 2, 0, 1, true, false, true},
	} {
		for _, ev := range tt.events {
			ev.Provenance.Unresumable = true
		}
		found := FindTurn(tt.events, "1")
		if found == nil {
			if tt.length > 0 {
				t.Errorf("%s: not found", name)
			}
			continue
		}
		if len(found.Events) != tt.length || len(found.Pending) != tt.pending || len(found.Answer()) != tt.answer || found.hasEnded() != tt.ended || found.IsCanceled() != tt.canceled || found.IsLast != tt.last {
			t.Errorf("%s: %d events, %d pending, answer of %d, ended %v, canceled %v, last %v", name, len(found.Events), len(found.Pending), len(found.Answer()), found.hasEnded(), found.IsCanceled(), found.IsLast)
		}
	}
}

// A task may begin with an answer, as that of a client that waited for the question without a task.
func TestTurnOfAnswer(t *testing.T) {
	asks := newEvent("1", "a", &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "q", Name: "ask"}}}})
	asks.LongRunningToolIDs = []string{"q"}
	answer := newEvent("2", session.UserAuthor, &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "q", Name: "ask", Response: map[string]any{"result": "x"}}}}})
	events := []*session.Event{newEvent("1", session.UserAuthor, model.UserText("go")), asks, answer, newEvent("2", "a", model.ModelText("done"))}
	if found := FindTurn(events, "2"); found == nil || len(found.Events) != 2 || len(found.Answer()) != 1 {
		t.Errorf("the turn of the answer: %+v", found)
	}
	if all := ListTurns(events); len(all) != 1 || len(all[0].Events) != 4 {
		t.Errorf("the turns: %+v", all)
	}
}

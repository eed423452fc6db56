package runtime

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// indexedEvent returns an event with calls and responses; an agent's event has long-running calls.
func indexedEvent(author, invocation string, parts ...*genai.Part) *session.Event {
	ev := &session.Event{Author: author, InvocationID: invocation}
	ev.Content = &genai.Content{Parts: parts}
	for _, c := range ev.Calls() {
		ev.LongRunningToolIDs = append(ev.LongRunningToolIDs, c.ID)
	}
	return ev
}

func callPart(id string) *genai.Part {
	return &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: "f"}}
}

func answerPart(id string, response map[string]any) *genai.Part {
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "f", Response: response}}
}

func requestPart(id, about string) *genai.Part {
	args := map[string]any{"originalFunctionCall": map[string]any{"id": about}}
	return &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: RequestConfirmation, Args: args}}
}

// A reused ID refers to the latest call; imported calls are not found.
func TestCallIndexReusedID(t *testing.T) {
	imported := indexedEvent("a", "e-0", callPart("imported"))
	imported.Provenance.Imported = true
	x := newCallIndex([]*session.Event{
		imported,
		indexedEvent("a", "e-1", callPart("1"), callPart("2")),
		indexedEvent(session.UserAuthor, "e-1", answerPart("1", map[string]any{"ok": true})),
		indexedEvent("b", "e-2", callPart("1")),
	})
	if _, found := x.findLastCall("imported"); found {
		t.Error("found an imported call")
	}
	site, _ := x.findLastCall("1")
	if site.event == nil || site.event.Author != "b" || site.at != 2 || len(x.findCalls("1")) != 2 {
		t.Errorf("last call 1 = %+v, want that of agent b at position 2", site)
	}
	answers := []*genai.FunctionResponse{{ID: "2"}, {ID: "1"}, {ID: "missing"}}
	got := []string{x.findAnsweredInvocation(answers), x.findAnsweredInvocation(answers[:1]), x.findAnsweredInvocation(answers[2:])}
	if diff := cmp.Diff([]string{"e-2", "e-1", ""}, got); diff != "" {
		t.Errorf("invocations (-want +got):\n%s", diff)
	}
	var pending []string
	for i, ev := range x.events {
		for _, c := range ev.Calls() {
			if x.isPending(c, i) {
				pending = append(pending, ev.InvocationID+" "+c.ID)
			}
		}
	}
	if diff := cmp.Diff([]string{"e-1 2", "e-2 1"}, pending); diff != "" {
		t.Errorf("pending calls (-want +got):\n%s", diff)
	}
}

// A call is executed when its result follows the answer to the request; a
// failed result does not count.
func TestCallIndexExecutedCall(t *testing.T) {
	x := newCallIndex([]*session.Event{
		indexedEvent("a", "e-1", callPart("1")),
		indexedEvent("a", "e-1", requestPart("r", "1")),
		indexedEvent("a", "e-1", answerPart("1", map[string]any{"error": "waits"})),
		indexedEvent(session.UserAuthor, "e-2", answerPart("r", map[string]any{"confirmed": true})),
	})
	if requests := x.findRequests("1"); len(requests) != 1 || requests[0].call.ID != "r" || requests[0].at != 1 {
		t.Errorf("requests about call 1 = %+v, want r at position 1", requests)
	}
	if !x.isAnswered("r", "e-2") || x.isAnswered("r", "e-1") || x.wasExecuted("r", "1", 0) {
		t.Error("want request r answered in e-2, and call 1 not executed")
	}
	failed := indexedEvent("a", "e-2", answerPart("1", nil))
	failed.ErrorCode = "FAILED"
	x.addEvent(failed)
	if x.wasExecuted("r", "1", 0) {
		t.Error("the call has failed, want it not executed")
	}
	x.addEvent(indexedEvent("a", "e-2", answerPart("1", map[string]any{"ok": true})))
	if !x.wasExecuted("r", "1", 3) || x.wasExecuted("r", "1", 4) {
		t.Error("want call 1 executed after the answer at position 3")
	}
}

// A rewind removes calls from the index; the index over all events keeps them.
func TestCallIndexRewound(t *testing.T) {
	first := indexedEvent(session.UserAuthor, "e-1")
	rewind := indexedEvent(session.UserAuthor, "e-2")
	rewind.Actions.RewindBeforeInvocationID = "e-1"
	x := newCallIndex([]*session.Event{first, indexedEvent("a", "e-1", callPart("1")), rewind})
	_, recorded := x.findLastCall("1")
	_, stored := x.all.findLastCall("1")
	if recorded || !stored {
		t.Errorf("call 1: recorded %v, stored %v, want it only in the index of all events", recorded, stored)
	}
	x.addEvent(indexedEvent("a", "e-3", callPart("2")))
	if site, _ := x.all.findLastCall("2"); len(x.findCalls("2")) != 1 || site.at != 3 {
		t.Errorf("added call = %+v, want position 3 of all events", site)
	}
	var none *callIndex
	if _, found := none.findLastCall("1"); found || none.isAnswered("1", "e-1") || none.findRequests("1") != nil {
		t.Error("a nil index has calls")
	}
}

package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// PendingCalls is an event with calls that wait for the user. One message can
// answer all of them; calls of two events require two messages.
type PendingCalls struct {
	Event *session.Event
	Calls []*genai.FunctionCall
}

// Pending returns the calls that the user has not answered, oldest first: the
// requests of the runtime (see [IsRequest]) and the calls of long-running tools.
// It excludes calls whose own result is a failure: they were not executed, or a
// separate request asks about them, or they were rejected. It also excludes
// requests that were answered before a rewind removed the answer.
func Pending(events []*session.Event) []PendingCalls {
	all, events := session.WithoutImported(events), session.Recorded(events)
	open := openCalls(events)
	var pending []PendingCalls
	for i, ev := range events {
		w := PendingCalls{Event: ev}
		for _, c := range ev.Calls() {
			if o, ok := open[c.ID]; ok && o.at == i && !o.failed && !(IsRequest(ev, c) && wasExecuted(all, c.ID, requestedCall(c))) {
				w.Calls = append(w.Calls, c)
			}
		}
		if len(w.Calls) > 0 {
			pending = append(pending, w)
		}
	}
	return pending
}

// openCall is a call that the user has not answered.
type openCall struct {
	// at is the index of its event.
	at int
	// failed reports whether its last result is a failure.
	failed bool
}

// openCalls maps call IDs to calls. An ID that a model reuses refers to the
// latest call.
func openCalls(events []*session.Event) map[string]openCall {
	open := map[string]openCall{}
	for i, ev := range events {
		for _, c := range ev.Calls() {
			if slices.Contains(ev.LongRunningToolIDs, c.ID) {
				open[c.ID] = openCall{at: i}
			}
		}
		for _, f := range ev.Responses() {
			o, ok := open[f.ID]
			switch {
			case ok && ev.Author == session.UserAuthor:
				if isFinalAnswer(f) {
					delete(open, f.ID)
				}
			case ok:
				open[f.ID] = openCall{o.at, isFailure(f.Response)}
			}
		}
	}
	return open
}

// isFailure reports whether a result is {"error": …} alone, or an error as MCP
// servers report it.
func isFailure(response map[string]any) bool {
	if response["isError"] == true {
		return true
	}
	_, failed := response["error"]
	return failed && len(response) == 1
}

// IsRequest reports whether a call is a request of the runtime. Models cannot
// make one.
func IsRequest(ev *session.Event, c *genai.FunctionCall) bool {
	return (c.Name == RequestConfirmation || c.Name == RequestCredential) && slices.Contains(ev.LongRunningToolIDs, c.ID)
}

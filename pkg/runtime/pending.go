package runtime

import (
	"bytes"
	"encoding/json"
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

// findAnsweredInvocation returns the invocation of the latest call that is
// answered.
func findAnsweredInvocation(events []*session.Event, answers []*genai.FunctionResponse) string {
	ids := map[string]bool{}
	for _, f := range answers {
		ids[f.ID] = true
	}
	if len(ids) == 0 {
		return ""
	}
	for _, ev := range slices.Backward(events) {
		for _, c := range ev.Calls() {
			if ids[c.ID] {
				return ev.InvocationID
			}
		}
	}
	return ""
}

// requestedCall returns the ID of the call that a request is about.
func requestedCall(request *genai.FunctionCall) string {
	if request.Name == RequestCredential {
		id, _ := request.Args["functionCallId"].(string)
		return id
	}
	original, _ := request.Args["originalFunctionCall"].(map[string]any)
	id, _ := original["id"].(string)
	return id
}

func requestNoun(request string) string {
	if request == RequestCredential {
		return "credential"
	}
	return "confirmation"
}

// wasExecuted reports whether an earlier answer to the request was followed by
// the result of the call.
func wasExecuted(since []*session.Event, request, call string) bool {
	answers := func(id string) func(*genai.FunctionResponse) bool {
		return func(f *genai.FunctionResponse) bool { return f.ID == id }
	}
	decided := false
	for _, ev := range since {
		responses := ev.Responses()
		if ev.Author == session.UserAuthor {
			decided = decided || slices.ContainsFunc(responses, answers(request))
		} else if decided && !isCallFailure(ev) && slices.ContainsFunc(responses, answers(call)) {
			return true
		}
	}
	return false
}

// checkAnswers rejects function responses to calls that are not pending, before
// the user's message is stored. A response replaces the last response of its
// call, so a client could otherwise forge the result of a tool. Responses to
// calls of different events are rejected too, because a response must directly
// follow its call.
func checkAnswers(events []*session.Event, responses []*genai.FunctionResponse) error {
	if len(responses) == 0 {
		return nil // the common case: skip reading the history
	}
	events = session.Recorded(events)
	var first *session.Event
	for i, f := range responses {
		if f.ID == "" {
			return invalidRequest("a function response needs the id of its call, got none for the name %q", f.Name)
		}
		at := findLastCall(events, f.ID)
		if at < 0 {
			return invalidRequest("function response %s does not match any function call of this conversation", f.ID)
		}
		if slices.ContainsFunc(responses[:i], func(other *genai.FunctionResponse) bool { return other.ID == f.ID }) {
			return invalidRequest("the message contains two answers to call %s", f.ID)
		}
		if first != nil && events[at] != first {
			return invalidRequest("function response %s answers a call of agent %s from a different event: send it in a separate message", f.ID, events[at].Author)
		}
		first = events[at]
		if reason := rejectionReason(events[at:], f); reason != "" {
			return invalidRequest("cannot answer the call %s: %s", f.ID, reason)
		}
	}
	return nil
}

// findLastCall returns the index of the last event with a call of this ID, or -1.
func findLastCall(events []*session.Event, id string) int {
	for i, ev := range slices.Backward(events) {
		if findCall(ev, id) != nil {
			return i
		}
	}
	return -1
}

// findCall returns the event's call of this ID, or nil.
func findCall(ev *session.Event, id string) *genai.FunctionCall {
	for _, c := range ev.Calls() {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// rejectionReason returns why the call of the first event does not accept a
// response; empty when it does. A final response that no agent has processed
// may be sent again, because its run was interrupted.
func rejectionReason(since []*session.Event, f *genai.FunctionResponse) string {
	call := findCall(since[0], f.ID)
	if call.Name != f.Name {
		return "its name is " + call.Name + ", not " + f.Name
	}
	if !slices.Contains(since[0].LongRunningToolIDs, f.ID) {
		return "it does not accept an answer: " + call.Name + " is not long-running"
	}
	var last, final *genai.FunctionResponse // of the tool; of the user
	processed := false
	for _, ev := range since {
		processed = processed || final != nil && ev.Author != session.UserAuthor
		for _, given := range ev.Responses() {
			switch {
			case given.ID != f.ID:
			case ev.Author != session.UserAuthor:
				last = given
			case isFinalAnswer(given):
				final = given
			}
		}
	}
	switch {
	case last != nil && isFailure(last.Response):
		return "it was not executed, or failed"
	case final != nil && (processed || !sameJSON(final.Response, f.Response)):
		return "it already has its final answer"
	}
	return ""
}

// isFinalAnswer reports whether a user's response completes its call. ADK does
// not define interim responses: a response is interim if its will_continue is
// set, as in Gemini's API, or if its status is pending, as for tools.
func isFinalAnswer(f *genai.FunctionResponse) bool {
	return !(f.WillContinue != nil && *f.WillContinue) && f.Response["status"] != "pending"
}

// sameJSON compares values by their JSON, because only one may have been
// decoded from a store.
func sameJSON(a, b any) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// isCallFailure reports whether an event has a failure instead of results: a
// resumed run executes its calls again.
func isCallFailure(ev *session.Event) bool { return ev.ErrorCode != "" && len(ev.Responses()) > 0 }

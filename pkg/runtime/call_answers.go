package runtime

import (
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

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

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
	x := newCallIndex(events)
	var pending []PendingCalls
	for i, ev := range x.events {
		w := PendingCalls{Event: ev}
		for _, c := range ev.Calls() {
			if x.isPending(c, i) && !(IsRequest(ev, c) && x.all.wasExecuted(c.ID, requestedCall(c), 0)) {
				w.Calls = append(w.Calls, c)
			}
		}
		if len(w.Calls) > 0 {
			pending = append(pending, w)
		}
	}
	return pending
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

func requestNoun(request string) string {
	if request == RequestCredential {
		return "credential"
	}
	return "confirmation"
}

// checkAnswers rejects function responses to calls that are not pending, before
// the user's message is stored. A response replaces the last response of its
// call, so a client could otherwise forge the result of a tool. Responses to
// calls of different events are rejected too, because a response must directly
// follow its call.
func checkAnswers(x *callIndex, responses []*genai.FunctionResponse) error {
	var first *session.Event
	for i, f := range responses {
		if f.ID == "" {
			return invalidRequest("a function response needs the id of its call, got none for the name %q", f.Name)
		}
		site, found := x.findLastCall(f.ID)
		if !found {
			return invalidRequest("function response %s does not match any function call of this conversation", f.ID)
		}
		if slices.ContainsFunc(responses[:i], func(other *genai.FunctionResponse) bool { return other.ID == f.ID }) {
			return invalidRequest("the message contains two answers to call %s", f.ID)
		}
		if first != nil && site.event != first {
			return invalidRequest("function response %s answers a call of agent %s from a different event: send it in a separate message", f.ID, site.event.Author)
		}
		first = site.event
		if reason := rejectionReason(x, site, f); reason != "" {
			return invalidRequest("cannot answer the call %s: %s", f.ID, reason)
		}
	}
	return nil
}

// rejectionReason returns why a call does not accept a response; empty when it
// does. A final response that no agent has processed may be sent again, because
// its run was interrupted.
func rejectionReason(x *callIndex, site indexedCall, f *genai.FunctionResponse) string {
	call := findCall(site.event, f.ID)
	if call.Name != f.Name {
		return "its name is " + call.Name + ", not " + f.Name
	}
	if !slices.Contains(site.event.LongRunningToolIDs, f.ID) {
		return "it does not accept an answer: " + call.Name + " is not long-running"
	}
	var last, final *genai.FunctionResponse // of the tool; of the user
	processed := false
	for _, r := range x.findResponses(f.ID) {
		switch {
		case r.at < site.at:
		case r.event.Author != session.UserAuthor:
			last = r.response
		case isFinalAnswer(r.response):
			final = r.response
			processed = processed || x.lastAgent > r.at
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

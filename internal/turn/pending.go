package turn

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// buildPendingVars returns what the session is waiting for: confirmations, oldest first,
// and responses to long-running calls.
func buildPendingVars(sess *session.Session) map[string]any {
	confirmations := []any{}
	for _, open := range PendingApprovals(sess.Events()) {
		for _, request := range open {
			a := runtime.ReadApproval(request)
			confirmations = append(confirmations, map[string]any{"tool": a.Tool, "args": EmptyIfNil(a.Args), "hint": a.Hint, "payload": a.Payload})
		}
	}
	calls := []any{}
	for _, w := range listPendingCalls(sess.Events()) {
		calls = append(calls, map[string]any{"agent": w.author, "name": w.call.Name, "args": EmptyIfNil(w.call.Args), "response": nil})
	}
	pending := map[string]any{"confirmation": nil, "confirmations": confirmations, "calls": calls}
	if len(confirmations) > 0 {
		pending["confirmation"] = confirmations[0]
	}
	return pending
}

// pendingCall is a call that requires the user's response.
type pendingCall struct {
	author string
	call   *genai.FunctionCall
}

// listPendingCalls returns the calls without a response, oldest first, except
// confirmation requests.
func listPendingCalls(events []*session.Event) []pendingCall {
	var all []pendingCall
	for _, w := range runtime.Pending(events) {
		for _, c := range w.Calls {
			if runtime.ReadApproval(c) == nil {
				all = append(all, pendingCall{w.Event.Author, c})
			}
		}
	}
	return all
}

// PendingApprovals returns the confirmation requests, oldest first, grouped by event.
func PendingApprovals(events []*session.Event) [][]*genai.FunctionCall {
	var all [][]*genai.FunctionCall
	for _, w := range runtime.Pending(events) {
		if c := w.Calls[0]; runtime.ReadApproval(c) != nil && runtime.IsRequest(w.Event, c) {
			all = append(all, w.Calls)
		}
	}
	return all
}

// A Decision is an answer to confirmation requests. In messages it is a function response,
// with ADK's keys.
type Decision map[string]any

// A decision's keys.
const (
	confirmedKey = "confirmed"
	payloadKey   = "payload"
)

// NewDecision approves or rejects a call.
func NewDecision(confirmed bool) Decision { return Decision{confirmedKey: confirmed} }

// WithPayload adds the user's payload, instead of the request's.
func (d Decision) WithPayload(payload any) Decision {
	d[payloadKey] = payload
	return d
}

// AnswerRequests answers the oldest event that requests confirmations. An approval without a
// payload gets the request's.
func (d Decision) AnswerRequests(events []*session.Event) ([]*genai.Part, error) {
	open := PendingApprovals(events)
	if len(open) == 0 {
		return nil, errors.New("no call requires confirmation")
	}
	var parts []*genai.Part
	for _, request := range open[0] {
		response := map[string]any{}
		if a := runtime.ReadApproval(request); a.Payload != nil && d[confirmedKey] == true {
			response[payloadKey] = a.Payload
		}
		for key, value := range d {
			response[key] = value
		}
		parts = append(parts, newResponsePart(request, response))
	}
	return parts, nil
}

// AnswerCalls gives each answer to its function's oldest pending call. Any value but a mapping is
// the function's result.
func AnswerCalls(events []*session.Event, answers []Answer) ([]*genai.Part, error) {
	open := listPendingCalls(events)
	var parts []*genai.Part
	for _, a := range answers {
		i := slices.IndexFunc(open, func(w pendingCall) bool { return w.call.Name == a.Function })
		if i < 0 {
			return nil, fmt.Errorf("no pending call to %s", a.Function)
		}
		parts = append(parts, newResponsePart(open[i].call, a.Response()))
		open = slices.Delete(open, i, i+1)
	}
	return parts, nil
}

// An Answer is the response to a pending call.
type Answer struct {
	Function string
	Value    any
}

// Response returns the value as a function response.
func (a Answer) Response() map[string]any {
	if response, ok := a.Value.(map[string]any); ok {
		return response
	}
	return map[string]any{"result": a.Value}
}

func newResponsePart(call *genai.FunctionCall, response map[string]any) *genai.Part {
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: response}}
}

package apptest

import (
	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// buildPendingVars returns what the session is waiting for: confirmations, oldest first,
// and responses to long-running calls.
func buildPendingVars(sess *session.Session) map[string]any {
	confirmations := []any{}
	for _, open := range pendingApprovals(sess.Events()) {
		for _, request := range open {
			original, _ := request.Args["originalFunctionCall"].(map[string]any)
			confirmation, _ := request.Args["toolConfirmation"].(map[string]any)
			confirmations = append(confirmations, map[string]any{
				"tool": original["name"], "args": original["args"], "hint": confirmation["hint"], "payload": confirmation["payload"],
			})
		}
	}
	calls := []any{}
	for _, w := range pendingCalls(sess) {
		calls = append(calls, map[string]any{"agent": w.author, "name": w.call.Name, "args": orEmptyMap(w.call.Args), "response": nil})
	}
	pending := map[string]any{"confirmation": nil, "confirmations": confirmations, "calls": calls}
	if len(confirmations) > 0 {
		pending["confirmation"] = confirmations[0]
	}
	return pending
}

// pendingCall is a call that requires a response of the user.
type pendingCall struct {
	author string
	call   *genai.FunctionCall
}

// pendingCalls returns the calls without a response, oldest first, except
// confirmation requests.
func pendingCalls(sess *session.Session) []pendingCall {
	var all []pendingCall
	for _, w := range runtime.Pending(sess.Events()) {
		for _, c := range w.Calls {
			if c.Name != runtime.RequestConfirmation {
				all = append(all, pendingCall{w.Event.Author, c})
			}
		}
	}
	return all
}

// pendingApprovals returns the confirmation requests, oldest first, grouped by event.
func pendingApprovals(events []*session.Event) [][]*genai.FunctionCall {
	var all [][]*genai.FunctionCall
	for _, w := range runtime.Pending(events) {
		if c := w.Calls[0]; c.Name == runtime.RequestConfirmation && runtime.IsRequest(w.Event, c) {
			all = append(all, w.Calls)
		}
	}
	return all
}

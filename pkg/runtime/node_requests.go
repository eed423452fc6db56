package runtime

import (
	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// emitNodeRequest yields the event by which a ToolNode requests human input for a call, and pauses
// the node. A call's approval comes before its credential.
func (c *nodeCall) emitNodeRequest(ev *session.Event, call *genai.FunctionCall, wanted *session.Actions) outcome {
	payload := map[string]any{"tool_name": call.Name, "args": cloneArgs(call.Args)}
	request := &genai.FunctionCall{}
	if ask := wanted.RequestedToolConfirmations[call.ID]; ask != nil {
		if ask.Payload != nil {
			payload["confirmation_payload"] = ask.Payload
		}
		if values, schema := selectEditable(c.tool, call); schema != nil && ask.Payload == nil {
			payload["confirmation_payload"], payload[editableArgs] = values, schema
		}
		request.ID, request.Name = nodeConfirmationPrefix+c.inv.path, tool.RequestInput
		request.Args = map[string]any{
			"interruptId": request.ID, "message": ask.Hint, "payload": payload,
			"response_schema": map[string]any{
				"type": "object", "required": []any{"confirmed"},
				"properties": map[string]any{"confirmed": map[string]any{"type": "boolean"}, "hint": map[string]any{"type": "string"}, "payload": map[string]any{}},
			},
		}
	} else {
		if d := c.decided[call.ID]; d != nil && d.confirmation != nil {
			payload["tool_confirmation"] = map[string]any{"confirmed": d.confirmation.Confirmed, "payload": d.confirmation.Payload}
			if d.edits != nil {
				payload[editableArgs] = session.Normalize(tool.CapabilitiesOf(c.tool).Edit.Schema())
			}
		}
		if c.input != nil {
			payload[inputKey] = c.input.v
		}
		request.ID, request.Name = nodeCredentialPrefix+c.inv.path, RequestCredential
		request.Args = map[string]any{
			"functionCallId": request.ID, "authConfig": wanted.RequestedAuthConfigs[call.ID], "payload": payload,
		}
	}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: request}}}
	ev.LongRunningToolIDs = []string{request.ID}
	return stopUnless(c.emitEvent(ev, nil) && c.pauseIfPending())
}

// readNodeDecision reads a ToolNode's stored request, and its answer.
func (c *nodeCall) readNodeDecision(request indexedCall, answer *genai.FunctionResponse) (*decision, error) {
	r := checkpointReader{inv: c.inv}
	at := "the request " + request.call.ID + ": payload"
	payload := r.readMapping(at, request.call.Args["payload"])
	d := &decision{
		call: &genai.FunctionCall{
			ID: request.event.NodePath, Name: r.readString(at+".tool_name", payload["tool_name"]), Args: cloneArgs(r.readMapping(at+".args", payload["args"])),
		},
		invocation: request.event.InvocationID, userText: findUserText(c.inv.run.calls.events[:request.at], request.event.InvocationID),
	}
	if r.err == nil && d.call.Name != c.tool.Declaration().Name {
		r.rejectValue(at+".tool_name", "must be the tool of the node, "+c.tool.Declaration().Name, d.call.Name)
	}
	if r.err != nil {
		return nil, r.err
	}
	if input, has := payload[inputKey]; has && request.call.Name == RequestCredential {
		d.input = &nodeValue{input}
	}
	var err error
	switch given := r.readMapping(at+".tool_confirmation", payload["tool_confirmation"]); {
	case request.call.Name == tool.RequestInput:
		message, _ := request.call.Args["message"].(string)
		d.requested = &session.Confirmation{Hint: message, Payload: payload["confirmation_payload"]}
		d.confirmation, err = readConfirmation(answer)
	case r.err != nil:
		err = r.err
	case given != nil:
		confirmed, _ := given["confirmed"].(bool)
		d.confirmation = &session.Confirmation{Confirmed: confirmed, Payload: given["payload"]}
	}
	if err == nil && d.confirmation != nil && payload[editableArgs] != nil {
		d.edits, err = readEdits(d.confirmation, d.call.Args, request.call.ID)
		d.editedBy = request.call.ID
	}
	return d, err
}

// An ApprovalRequest is what a call asks a person to approve.
type ApprovalRequest struct {
	Tool string
	Args map[string]any
	// CallID is the ID of the call to approve; empty for a ToolNode's call, which is not stored.
	CallID string
	Hint   string
	// Payload is what the tool asked; nil without.
	Payload any
	// Editable is the JSON Schema for the arguments that the person may change, with their values as
	// the payload; nil if there are none.
	Editable map[string]any
}

// ReadApproval returns what a runtime call asks a person to approve, or nil if it asks for
// something else. See [RequestConfirmation] and [nodeConfirmationPrefix].
func ReadApproval(c *genai.FunctionCall) *ApprovalRequest {
	switch {
	case c.Name == RequestConfirmation:
		original, _ := c.Args["originalFunctionCall"].(map[string]any)
		asked, _ := c.Args["toolConfirmation"].(map[string]any)
		a := &ApprovalRequest{Payload: asked["payload"]}
		a.CallID, _ = original["id"].(string)
		a.Tool, _ = original["name"].(string)
		a.Args, _ = original["args"].(map[string]any)
		a.Hint, _ = asked["hint"].(string)
		a.Editable, _ = c.Args[editableArgs].(map[string]any)
		return a
	case isNodeConfirmation(c.Name, c.ID):
		payload, _ := c.Args["payload"].(map[string]any)
		a := &ApprovalRequest{Payload: payload["confirmation_payload"]}
		a.Tool, _ = payload["tool_name"].(string)
		a.Args, _ = payload["args"].(map[string]any)
		a.Hint, _ = c.Args["message"].(string)
		a.Editable, _ = payload[editableArgs].(map[string]any)
		return a
	}
	return nil
}

// IsApproval reports whether a user response answers a request that [ReadApproval] reads, and
// returns its decision.
func IsApproval(f *genai.FunctionResponse) (decision map[string]any, ok bool) {
	if f.Name != RequestConfirmation && !isNodeConfirmation(f.Name, f.ID) {
		return nil, false
	}
	decision, err := unwrapResponse(f)
	return decision, err == nil
}

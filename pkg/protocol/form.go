package protocol

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool/declare"
)

// A Form is a call that waits for a person, for a client that shows a form and sends JSON. A
// [Question] is the same for a client that has only text.
type Form struct {
	Call *genai.FunctionCall
	// Approval is what the call asks a person to approve; nil for other calls.
	Approval *runtime.ApprovalRequest
	// Message is for the person. Characters that hide text are removed.
	Message string
	// Schema is the JSON Schema for an answer; nil if an answer has no value.
	Schema map[string]any
	// Address is where the person authorizes a connection, and Code is what to enter there; empty
	// for other calls.
	Address, Code string
}

// The fields in the answer to an approval.
const (
	FieldApproved = "approved"
	// FieldEditedArgs has all arguments that the person may change.
	FieldEditedArgs = "editedArgs"
	// FieldPayload replaces the value that the tool has proposed.
	FieldPayload = "payload"
)

// NewForm returns a call as a form; nil if a person cannot answer it.
func NewForm(c *genai.FunctionCall) *Form {
	q := NewQuestion(c)
	if q == nil {
		return nil
	}
	f := &Form{Call: c, Approval: runtime.ReadApproval(c)}
	switch {
	case f.Approval != nil:
		f.Message, f.Schema = describeApproval(f.Approval), f.approvalSchema()
	case q.options != nil:
		f.Message, f.Schema = "Choose one", map[string]any{"type": "string", "enum": c.Args["options"]}
	case c.Name == runtime.RequestCredential:
		f.Message = "Authorize the connection"
		f.Address, f.Code = ReadAuthorization(c)
		f.Code = cleanText(f.Code)
	default:
		f.Message, f.Schema = readMessage(c), q.schema
		if f.Schema == nil {
			f.Schema = map[string]any{"type": "string"}
		}
	}
	return f
}

func (f *Form) approvalSchema() map[string]any {
	fields := map[string]any{FieldApproved: map[string]any{"type": "boolean"}}
	switch {
	case f.Approval.Editable != nil:
		fields[FieldEditedArgs] = map[string]any{"type": "object", "properties": f.Approval.Editable["properties"]}
	case f.Approval.Payload != nil:
		fields[FieldPayload] = map[string]any{}
	}
	return map[string]any{"type": "object", "properties": fields, "required": []any{FieldApproved}}
}

// ReadAnswer returns the function response for an answer that matches the schema. The error names
// the rule.
func (f *Form) ReadAnswer(ctx context.Context, answer any) (map[string]any, error) {
	if f.Call.Name == runtime.RequestCredential {
		return map[string]any{}, nil // the host has received the authorization server's answer
	}
	answer = session.Normalize(answer)
	if f.Approval != nil {
		return f.readApproval(answer)
	}
	schema, err := declare.Schema(f.Schema)
	if err != nil { // the app has written it
		return wrapResult(answer), nil
	}
	value, err := schema.Check(ctx, answer)
	if err != nil {
		return nil, err
	}
	return wrapResult(value), nil
}

// wrapResult returns a value as a function response.
func wrapResult(value any) map[string]any {
	if object, ok := value.(map[string]any); ok {
		return object
	}
	return map[string]any{"result": value}
}

// readApproval reads an approval. The runtime checks changed arguments by the tool's own schema.
func (f *Form) readApproval(answer any) (map[string]any, error) {
	fields, _ := answer.(map[string]any)
	approved, ok := fields[FieldApproved].(bool)
	if !ok {
		return nil, fmt.Errorf("%s must be true or false", FieldApproved)
	}
	response := map[string]any{"confirmed": approved}
	if !approved {
		return response, nil
	}
	if f.Approval.Payload != nil {
		response["payload"] = f.Approval.Payload
	}
	if payload, ok := fields[FieldPayload]; ok && f.Approval.Editable == nil && f.Approval.Payload != nil {
		response["payload"] = payload
	}
	edited, isEdited := fields[FieldEditedArgs]
	if !isEdited || edited == nil {
		return response, nil
	}
	args, ok := edited.(map[string]any)
	switch {
	case f.Approval.Editable == nil:
		return nil, fmt.Errorf("%s is not accepted: the call's arguments cannot be changed", FieldEditedArgs)
	case !ok:
		return nil, fmt.Errorf("%s must be an object", FieldEditedArgs)
	}
	response["payload"] = listChanges(f.Approval, args)
	return response, nil
}

// listChanges returns what a call's complete arguments change. An argument that is left out is
// removed. One that the person may not change may be repeated.
func listChanges(a *runtime.ApprovalRequest, args map[string]any) map[string]any {
	changes := maps.Clone(args)
	own, _ := session.Normalize(a.Args).(map[string]any)
	editable, _ := a.Editable["properties"].(map[string]any)
	for name, value := range args {
		if _, ok := editable[name]; !ok && reflect.DeepEqual(own[name], value) {
			delete(changes, name)
		}
	}
	for name := range editable {
		_, isSent := args[name]
		if _, isOwn := own[name]; isOwn && !isSent {
			changes[name] = nil
		}
	}
	return changes
}

// Cancel returns the function response for a person who gives no answer: an approval is rejected, and
// the agent reads that the question was cancelled.
func (f *Form) Cancel() map[string]any {
	switch {
	case f.Approval != nil:
		return map[string]any{"confirmed": false}
	case f.Call.Name == runtime.RequestCredential:
		return map[string]any{}
	}
	return map[string]any{"error": "cancelled by the user"}
}

// ListOpen returns the calls that wait in a session's events: the oldest event's forms, because a message
// answers one event's calls, and the calls to long-running tools.
func ListOpen(events []*session.Event) (forms []*Form, calls []*genai.FunctionCall) {
	isWaiting := func(ev *session.Event) bool { return len(ev.LongRunningToolIDs) > 0 }
	if !slices.ContainsFunc(events, isWaiting) {
		return nil, nil
	}
	for _, waiting := range runtime.Pending(session.Recorded(events)) {
		isFirst := len(forms) == 0
		for _, c := range waiting.Calls {
			f := NewForm(c)
			switch {
			case f == nil:
				calls = append(calls, c)
			case isFirst:
				forms = append(forms, f)
			}
		}
	}
	return forms, calls
}

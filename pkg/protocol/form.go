package protocol

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
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
		f.Message, f.Schema = DescribeApproval(f.Approval), f.approvalSchema()
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

// An Elicitation is a call that waits for a person, for a client that shows flat forms and opens
// addresses, as MCP and ACP do. A [Form] is the same for a client that shows any schema.
type Elicitation struct {
	Call *genai.FunctionCall
	// Message is what the person reads above the form.
	Message string
	// Schema is that of the form: an object with simple values. It is nil with a URL.
	Schema map[string]any
	// URL is where the person authorizes a connection, instead of a form.
	URL string
}

// The actions of a person on a form.
const (
	ActionAccept  = "accept"
	ActionDecline = "decline"
)

// The fields in answers.
const (
	fieldConfirmed = "confirmed"
	fieldAnswer    = "answer"
)

const maxFields = 30

// NewElicitation returns a call as an elicitation; nil if a person cannot answer it. Characters that hide text are
// removed, because the person must see what runs.
func NewElicitation(c *genai.FunctionCall) *Elicitation {
	f := &Elicitation{Call: c}
	if a := runtime.ReadApproval(c); a != nil {
		f.Message = DescribeApproval(a)
		if args, err := server.EncodeJSON(a.Args); err == nil && len(a.Args) > 0 {
			f.Message = cleanText(f.Message + "\n" + string(args))
		}
		f.Schema = newObjectSchema(fieldConfirmed, map[string]any{"type": "boolean", "title": "Approve"})
		return f
	}
	switch c.Name {
	case tool.UserChoice:
		options, _ := c.Args["options"].([]any)
		if len(options) == 0 || len(options) > maxOptions {
			return nil
		}
		f.Message = "Choose one"
		f.Schema = newObjectSchema(fieldAnswer, map[string]any{"type": "string", "enum": options})
	case tool.RequestInput:
		f.Message = readMessage(c)
		f.Schema = newAnswerSchema(c)
	case runtime.RequestCredential:
		address, code := ReadAuthorization(c)
		if address == "" {
			return nil
		}
		f.URL, f.Message = address, cleanText(strings.TrimSpace("Authorize the connection. "+code))
	default:
		return nil
	}
	return f
}

func newObjectSchema(name string, property any) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{name: property}, "required": []string{name}}
}

// newAnswerSchema returns the form for an input request: its own schema if it is an object with simple
// values, and otherwise one field.
func newAnswerSchema(c *genai.FunctionCall) map[string]any {
	schema, _ := c.Args["response_schema"].(map[string]any)
	if hasSimpleValue(schema) {
		return newObjectSchema(fieldAnswer, schema)
	}
	if isFlat(schema) {
		form := map[string]any{"type": "object", "properties": schema["properties"]}
		if required, ok := schema["required"].([]any); ok {
			form["required"] = required
		}
		return form
	}
	return newObjectSchema(fieldAnswer, map[string]any{"type": "string"})
}

// isFlat reports whether a schema is an object with simple values, as forms require.
func isFlat(schema map[string]any) bool {
	properties, _ := schema["properties"].(map[string]any)
	if len(properties) == 0 || len(properties) > maxFields {
		return false
	}
	for _, v := range properties {
		property, _ := v.(map[string]any)
		if !hasSimpleValue(property) && !isSelection(property) {
			return false
		}
	}
	return true
}

func hasSimpleValue(schema map[string]any) bool {
	kind, _ := schema["type"].(string)
	return isSimple(kind)
}

// isSelection reports whether a schema is a list of options, several of which a person can choose.
func isSelection(schema map[string]any) bool {
	items, _ := schema["items"].(map[string]any)
	_, hasValues := items["enum"].([]any)
	_, hasTitles := items["anyOf"].([]any)
	return schema["type"] == "array" && (hasValues || hasTitles)
}

// ReadAnswer returns the function response for a person's action, and the form's content. It is nil
// for a form that the person has closed: the call stays open. An answer that does not fit is an error.
func (f *Elicitation) ReadAnswer(ctx context.Context, action string, content map[string]any) (map[string]any, error) {
	approval := runtime.ReadApproval(f.Call)
	switch {
	case action == ActionDecline && approval != nil:
		return NewDecision(approval, false), nil
	case action != ActionAccept:
		return nil, nil
	case f.URL != "":
		return map[string]any{}, nil // the host has received the authorization server's answer
	case approval != nil:
		confirmed, ok := content[fieldConfirmed].(bool)
		if !ok {
			return nil, fmt.Errorf("%s must be true or false", fieldConfirmed)
		}
		return NewDecision(approval, confirmed), nil
	}
	return f.checkContent(ctx, content)
}

// checkContent checks a form's content by its schema, and by the one that the app has written.
func (f *Elicitation) checkContent(ctx context.Context, content map[string]any) (map[string]any, error) {
	form, err := declare.Schema(f.Schema)
	if err != nil {
		return nil, fmt.Errorf("the question's schema is invalid: %w", err)
	}
	checked, err := form.Check(ctx, session.Normalize(content))
	if err != nil {
		return nil, err
	}
	fields, _ := checked.(map[string]any)
	written, _ := f.Call.Args["response_schema"].(map[string]any)
	if isFlat(written) {
		return fields, nil
	}
	text, _ := fields[fieldAnswer].(string)
	if written == nil || hasSimpleValue(written) {
		return map[string]any{"result": fields[fieldAnswer]}, nil
	}
	// The app's schema has no form, and the person has written JSON.
	schema, err := declare.Schema(written)
	if err != nil {
		return map[string]any{"result": text}, nil
	}
	value, err := schema.Parse(ctx, text)
	if err != nil {
		return nil, err
	}
	if object, ok := value.(map[string]any); ok {
		return object, nil
	}
	return map[string]any{"result": value}, nil
}

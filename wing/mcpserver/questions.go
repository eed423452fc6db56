package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// Limits for questions.
const (
	maxQuestions    = 16
	maxQuestionText = 4000
	maxOptions      = 50
	maxFields       = 30
)

// The fields in answers.
const (
	fieldConfirmed = "confirmed"
	fieldAnswer    = "answer"
)

// A question is a call that waits for a person, as a client asks it.
type question struct {
	call   *genai.FunctionCall
	params *mcp.ElicitParams
}

// pendingCall is a call that waits, with the event that has made it.
type pendingCall struct {
	event string
	call  *genai.FunctionCall
}

// listPending returns the session's open calls, oldest first.
func (c *call) listPending(ctx context.Context) ([]pendingCall, error) {
	sess, err := c.p.h.Host().Store().Sessions.Get(ctx, c.key, nil)
	if err != nil {
		return nil, err
	}
	var all []pendingCall
	for _, w := range runtime.Pending(session.Recorded(sess.Events())) {
		for _, open := range w.Calls {
			all = append(all, pendingCall{w.Event.ID, open})
		}
	}
	return all, nil
}

// newQuestion returns a call as a question; nil for one that a person cannot answer. Text that hides
// other text is removed, because the person must see what runs.
func newQuestion(c *genai.FunctionCall) *question {
	q := &question{call: c, params: &mcp.ElicitParams{Mode: "form"}}
	if a := runtime.ReadApproval(c); a != nil {
		text := a.Hint
		if text == "" || text == tool.DefaultConfirmationHint(a.Tool) {
			text = fmt.Sprintf("Approve the call of %s?", a.Tool)
		}
		if args, err := server.EncodeJSON(a.Args); err == nil && len(a.Args) > 0 {
			text += "\n" + string(args)
		}
		q.params.Message = cleanQuestion(text)
		q.params.RequestedSchema = objectSchema(fieldConfirmed, map[string]any{"type": "boolean", "title": "Approve"})
		return q
	}
	switch c.Name {
	case tool.UserChoice:
		options, _ := c.Args["options"].([]any)
		if len(options) == 0 || len(options) > maxOptions {
			return nil
		}
		q.params.Message = "Choose one"
		q.params.RequestedSchema = objectSchema(fieldAnswer, map[string]any{"type": "string", "enum": options})
	case tool.RequestInput:
		text, _ := c.Args["message"].(string)
		if q.params.Message = cleanQuestion(text); q.params.Message == "" {
			q.params.Message = "Input required"
		}
		q.params.RequestedSchema = answerSchema(c)
	case runtime.RequestCredential:
		address, code := protocol.ReadAuthorization(c)
		if address == "" {
			return nil
		}
		q.params = &mcp.ElicitParams{Mode: "url", URL: address, ElicitationID: c.ID, Message: cleanQuestion(strings.TrimSpace("Authorize the connection. " + code))}
	default:
		return nil
	}
	return q
}

func cleanQuestion(text string) string { return truncateText(terminal.Clean(text), maxQuestionText) }

func objectSchema(name string, property any) map[string]any {
	return map[string]any{"type": "object", "properties": map[string]any{name: property}, "required": []string{name}}
}

// answerSchema returns the form for an input request: its own schema if it is an object with simple
// values, and otherwise one field.
func answerSchema(c *genai.FunctionCall) map[string]any {
	schema, _ := c.Args["response_schema"].(map[string]any)
	if isSimpleValue(schema) {
		return objectSchema(fieldAnswer, schema)
	}
	if isFlat(schema) {
		form := map[string]any{"type": "object", "properties": schema["properties"]}
		if required, ok := schema["required"].([]any); ok {
			form["required"] = required
		}
		return form
	}
	return objectSchema(fieldAnswer, map[string]any{"type": "string"})
}

// isFlat reports whether a schema is an object with simple values, as forms require.
func isFlat(schema map[string]any) bool {
	properties, _ := schema["properties"].(map[string]any)
	if len(properties) == 0 || len(properties) > maxFields {
		return false
	}
	for _, v := range properties {
		property, _ := v.(map[string]any)
		if !isSimpleValue(property) && !isSelection(property) {
			return false
		}
	}
	return true
}

func isSimpleValue(schema map[string]any) bool {
	kind, _ := schema["type"].(string)
	return slices.Contains([]string{"string", "number", "integer", "boolean"}, kind)
}

// isSelection reports whether a schema is a list of options, several of which a person can choose.
func isSelection(schema map[string]any) bool {
	items, _ := schema["items"].(map[string]any)
	_, hasValues := items["enum"].([]any)
	_, hasTitles := items["anyOf"].([]any)
	return schema["type"] == "array" && (hasValues || hasTitles)
}

// listQuestions returns the open calls' questions that the client can ask.
func (c *call) listQuestions(pending []pendingCall) []*question {
	caps := c.capabilities
	if caps == nil || caps.Elicitation == nil {
		return nil
	}
	form := caps.Elicitation.Form != nil || caps.Elicitation.URL == nil
	var all []*question
	for _, open := range pending {
		q := newQuestion(open.call)
		if q == nil || q.params.Mode == "form" && !form || q.params.Mode == "url" && caps.Elicitation.URL == nil {
			continue
		}
		if all = append(all, q); len(all) == maxQuestions {
			break
		}
	}
	return all
}

// readResult returns the function response for a person's answer. A cancelled question stays open.
// An answer that does not fit is an error.
func (q *question) readResult(ctx context.Context, r *mcp.ElicitResult) (response map[string]any, err error) {
	approval := runtime.ReadApproval(q.call)
	switch {
	case r.Action == "decline" && approval != nil:
		return map[string]any{"confirmed": false}, nil
	case r.Action != "accept":
		return nil, nil
	case q.params.Mode == "url":
		return map[string]any{}, nil // the host has received the authorization server's answer
	case approval != nil:
		confirmed, ok := r.Content[fieldConfirmed].(bool)
		if !ok {
			return nil, fmt.Errorf("%s must be true or false", fieldConfirmed)
		}
		response = map[string]any{"confirmed": confirmed}
		if confirmed && approval.Payload != nil {
			response["payload"] = approval.Payload
		}
		return response, nil
	}
	return q.checkAnswer(ctx, r.Content)
}

// checkAnswer checks an answer by the form, and by the schema that the app has written.
func (q *question) checkAnswer(ctx context.Context, content map[string]any) (map[string]any, error) {
	form, err := declare.Schema(q.params.RequestedSchema.(map[string]any))
	if err != nil {
		return nil, fmt.Errorf("the question's schema is invalid: %w", err)
	}
	checked, err := form.Check(ctx, session.Normalize(content))
	if err != nil {
		return nil, err
	}
	fields, _ := checked.(map[string]any)
	written, _ := q.call.Args["response_schema"].(map[string]any)
	if isFlat(written) {
		return fields, nil
	}
	text, _ := fields[fieldAnswer].(string)
	if written == nil || isSimpleValue(written) {
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

// buildMessage returns the answers as the user's message; nil without answers.
func buildMessage(responses map[*question]map[string]any, order []*question) *genai.Content {
	content := &genai.Content{Role: genai.RoleUser}
	for _, q := range order {
		if response := responses[q]; response != nil {
			content.Parts = append(content.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: q.call.ID, Name: q.call.Name, Response: response}})
		}
	}
	if len(content.Parts) == 0 {
		return nil
	}
	return content
}

// The request state names the questions that a client without a session answers: a hash over the
// caller, the tool, its arguments and the session's open calls, a dot, and the session. It needs no
// key. The hash is compared with that for the calls that are open in the caller's own session, so
// that nothing matches a state that was changed, was used before or is another user's. Any replica
// can check it.

// maxState limits a request state in bytes.
const maxState = 2048

func (c *call) encodeState(pending []pendingCall) string {
	return c.hashPending(pending) + "." + c.key.ID
}

func (c *call) hashPending(pending []pendingCall) string {
	sum := sha256.New()
	write := func(text string) { fmt.Fprintf(sum, "%d:%s", len(text), text) }
	for _, text := range []string{"agenthost mcp state", c.key.App, c.key.User, c.key.ID, c.tool.Name, string(c.req.Params.Arguments)} {
		write(text)
	}
	for _, open := range pending {
		write(open.event)
		write(open.call.ID)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// openState returns the calls that a state names.
func (c *call) openState(ctx context.Context, state string) ([]pendingCall, error) {
	hash, id, ok := strings.Cut(state, ".")
	if !ok || id == "" || len(state) > maxState {
		return nil, errBadState
	}
	c.key.ID, c.creates = id, false
	pending, err := c.listPending(ctx)
	if err != nil || len(pending) == 0 || subtle.ConstantTimeCompare([]byte(hash), []byte(c.hashPending(pending))) != 1 {
		return nil, errBadState
	}
	return pending, nil
}

package conversation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// A question is a pending call as a prompt for the user.
type question struct {
	// pendingText is a line that describes the pending call.
	pendingText string
	// message is printed above the prompt unless it is empty.
	message, prompt string
	// tool and args are the call that waits for approval, or empty.
	tool string
	args map[string]any
	// editHint describes how to change the call's arguments; empty if they cannot change.
	editHint string
	// optional means that an empty line leaves the call pending.
	optional bool
	// parseLine parses a line into a response. A nil response means that the line is not
	// a valid answer; problem, if not empty, is the reason.
	parseLine func(line string) (response map[string]any, problem string)
}

// newQuestion returns the question for a call. Consent is not nil if the call waits for a connection.
func newQuestion(call *genai.FunctionCall, consent *Consent) *question {
	if a := runtime.ReadApproval(call); a != nil {
		return approvalQuestion(a)
	}
	callText := fmt.Sprintf("%s(%s)", call.Name, terminal.CompactJSON(call.Args))
	if consent != nil {
		// answerCall authorizes it.
		return &question{pendingText: consent.Pending, optional: true}
	}
	q := &question{pendingText: callText + " waits for an answer", prompt: "answer " + callText + " [Enter: later] ", optional: true}
	written := answerSchema(call)
	if message, ok := call.Args["message"].(string); ok && call.Name == tool.RequestInput {
		q.message, q.prompt = message, "answer [Enter: later] "
		if written != nil {
			q.prompt = "answer as " + terminal.CompactJSON(written) + " [Enter: later] "
		}
	}
	var schema *tool.Schema
	if written != nil {
		// A model may write an invalid schema: then any answer is valid.
		schema, _ = declare.Schema(written)
	}
	q.parseLine = func(line string) (map[string]any, string) { return parseAnswer(schema, line) }
	return q
}

// answerSchema returns the JSON schema for a call's answer, or nil.
func answerSchema(call *genai.FunctionCall) map[string]any {
	switch call.Name {
	case tool.RequestInput:
		schema, _ := call.Args["response_schema"].(map[string]any)
		return schema
	case tool.UserChoice:
		if options, ok := call.Args["options"].([]any); ok && len(options) > 0 {
			return map[string]any{"enum": options}
		}
	case runtime.RequestCredential:
		return map[string]any{"type": "object", "required": []any{"exchangedAuthCredential"}}
	}
	return nil
}

// parseAnswer parses a line as JSON if the schema accepts that, otherwise as a string.
// Without a schema only an object is JSON. An object is the response itself; any other
// value is its result, as in ADK.
func parseAnswer(schema *tool.Schema, line string) (response map[string]any, problem string) {
	if schema == nil {
		if !strings.HasPrefix(line, "{") {
			return map[string]any{"result": line}, ""
		}
		m, err := session.DecodeMap([]byte(line))
		if err != nil {
			return nil, "the answer starts like a JSON object but is not valid JSON: " + err.Error()
		}
		return m, ""
	}
	ctx := context.Background() // the check's budget ends it
	v, err := schema.Parse(ctx, line)
	if err != nil {
		var asText error
		if v, asText = schema.Check(ctx, line); asText != nil {
			if !json.Valid([]byte(line)) {
				err = asText
			}
			return nil, "invalid answer: " + err.Error()
		}
	}
	if m, ok := v.(map[string]any); ok {
		return m, ""
	}
	return map[string]any{"result": v}, ""
}

// approvalQuestion prompts for yes or no. A request with fields, such as an MCP server's question,
// also takes them as a JSON object.
func approvalQuestion(a *runtime.ApprovalRequest) *question {
	call := fmt.Sprintf("%s(%s)", a.Tool, terminal.CompactJSON(a.Args))
	q := &question{pendingText: call + " waits for approval", prompt: "approve " + call + "? [y/n] ", tool: a.Tool, args: a.Args}
	if a.Hint != tool.DefaultConfirmationHint(a.Tool) {
		q.message = a.Hint
	}
	fields, hasFields := a.Payload.(map[string]any)
	if content, ok := fields["content"].(map[string]any); ok {
		fields = content // the form of an MCP server's question
	}
	if hasFields = hasFields && len(fields) > 0; hasFields {
		q.prompt = fmt.Sprintf("approve %s? [y/n, or the answer as JSON, such as %s] ", call, terminal.CompactJSON(fields))
	}
	if a.Editable != nil {
		hasFields = true
		q.editHint = ", or changed arguments as JSON, such as " + terminal.CompactJSON(describeEditable(a))
		q.prompt = "approve " + call + "? [y/n" + q.editHint + "] "
	}
	q.parseLine = func(line string) (map[string]any, string) {
		switch line {
		case "y", "yes":
			response := map[string]any{"confirmed": true}
			if a.Payload != nil {
				response["payload"] = a.Payload
			}
			return response, ""
		case "n", "no":
			return map[string]any{"confirmed": false}, ""
		}
		if !hasFields || !strings.HasPrefix(line, "{") {
			return nil, ""
		}
		payload, err := session.DecodeMap([]byte(line))
		if err != nil {
			return nil, "the answer starts like a JSON object but is not valid JSON: " + err.Error()
		}
		if a.Editable != nil {
			if payload, err = checkEdits(a, payload); err != nil {
				return nil, "invalid arguments: " + err.Error()
			}
		}
		return map[string]any{"confirmed": true, "payload": payload}, ""
	}
	return q
}

// describeEditable returns the arguments that a person may change: their values, or null for those
// that the call does not have.
func describeEditable(a *runtime.ApprovalRequest) map[string]any {
	all := map[string]any{}
	properties, _ := a.Editable["properties"].(map[string]any)
	for name := range properties {
		all[name] = a.Args[name]
	}
	return all
}

// checkEdits returns the arguments that a person may change, with the changes.
func checkEdits(a *runtime.ApprovalRequest, changes map[string]any) (map[string]any, error) {
	all := map[string]any{}
	values, _ := a.Payload.(map[string]any)
	maps.Copy(all, values)
	maps.Copy(all, changes)
	properties, _ := a.Editable["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if _, ok := properties[name]; !ok {
			return nil, fmt.Errorf("%q cannot be changed: you may change %s", name, strings.Join(slices.Sorted(maps.Keys(properties)), ", "))
		}
	}
	schema, err := declare.Schema(a.Editable)
	if err != nil {
		return all, nil // the host checks them
	}
	_, err = schema.Check(context.Background(), all) // the check's budget ends it
	return all, err
}

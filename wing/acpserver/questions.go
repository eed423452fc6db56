package acpserver

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genai"

	credentials "agenthost/pkg/connection"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// canShow reports whether the client can show a question by a request, and not in words only.
func (t *turn) canShow(c *genai.FunctionCall) bool {
	if runtime.ReadApproval(c) != nil || t.a.canAuthorize(c) {
		return true
	}
	form, client := protocol.NewElicitation(c), t.a.readClient()
	return form != nil && (form.URL == "" && client.hasForm() || form.URL != "" && client.hasURL())
}

// askPerson shows the session's open calls, and returns the answers as the next message; nil without
// answers. One message answers the calls of one event.
func (t *turn) askPerson(ctx context.Context) (*genai.Content, error) {
	sess, err := t.a.findSession(ctx, t.key.ID)
	if err != nil {
		return nil, err
	}
	for _, waiting := range runtime.Pending(session.Recorded(sess.Events())) {
		answers := &genai.Content{Role: genai.RoleUser}
		for _, c := range waiting.Calls {
			if t.closed[c.ID] {
				continue
			}
			t.closed[c.ID] = true
			response, err := t.askCall(ctx, c)
			if err != nil || t.stop == stopCancelled {
				return nil, err
			}
			if response != nil {
				answers.Parts = append(answers.Parts, newAnswers(c, response).Parts...)
			}
		}
		if len(answers.Parts) > 0 {
			return answers, nil
		}
	}
	return nil, nil
}

// askCall shows a call, and returns the answer; nil without. The call stays open then.
func (t *turn) askCall(ctx context.Context, c *genai.FunctionCall) (response map[string]any, err error) {
	if !t.canShow(c) {
		return nil, t.sendWords(ctx, c)
	}
	approval := runtime.ReadApproval(c)
	switch {
	case approval != nil:
		response, err = t.requestPermission(ctx, c, approval)
	case t.a.canAuthorize(c):
		response, err = t.awaitAuthorization(ctx, c)
	default:
		response, err = t.elicitAnswer(ctx, protocol.NewElicitation(c))
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, errLeft):
		t.stop = stopCancelled
		return nil, nil
	case err != nil:
		t.a.Logger().Warn("the client did not show a question", "session", t.key.ID, "err", err)
		return nil, t.sendWords(ctx, c)
	}
	return response, nil
}

// sendWords sends a question as text, which the next prompt answers.
func (t *turn) sendWords(ctx context.Context, c *genai.FunctionCall) error {
	q := protocol.NewQuestion(c)
	if q == nil {
		return nil // a call that no person answers
	}
	return t.updates.sendChunk(ctx, "", newTextBlock(q.Text), false)
}

// The options of a permission request.
const (
	optionAllow  = "allow_once"
	optionReject = "reject_once"
)

type permissionOption struct {
	ID   string `json:"optionId"`
	Name string `json:"name"`
	Kind string `json:"kind"`
}

type permissionResult struct {
	Outcome *struct {
		Outcome  string `json:"outcome"`
		OptionID string `json:"optionId"`
	} `json:"outcome"`
}

// requestPermission asks whether a call may run. Only the option that allows it does.
func (t *turn) requestPermission(ctx context.Context, c *genai.FunctionCall, a *runtime.ApprovalRequest) (map[string]any, error) {
	id := a.CallID
	if id == "" {
		id = c.ID
	}
	args := a.Args
	if args == nil {
		args = map[string]any{}
	}
	shown := map[string]any{"toolCallId": id, "title": protocol.DescribeApproval(a), "name": a.Tool, "status": statusPending, "rawInput": args}
	var result permissionResult
	err := t.a.conn.askClient(ctx, "session/request_permission", map[string]any{
		"sessionId": t.key.ID, "toolCall": shown,
		"options": []permissionOption{{optionAllow, "Allow", "allow_once"}, {optionReject, "Reject", "reject_once"}},
	}, &result)
	switch {
	case err != nil:
		return nil, err
	case result.Outcome == nil:
		return nil, errors.New("the client's result has no outcome")
	case result.Outcome.Outcome == "cancelled":
		t.stop = stopCancelled
		return nil, nil
	case result.Outcome.Outcome == "selected" && result.Outcome.OptionID == optionReject:
		return protocol.NewDecision(a, false), nil
	case result.Outcome.Outcome == "selected" && result.Outcome.OptionID == optionAllow:
		return protocol.NewDecision(a, true), t.updates.sendUpdate(ctx, &update{Kind: "tool_call_update", ToolCallID: id, Status: statusInProgress})
	}
	return nil, errors.New("the client's outcome is none of the options")
}

type elicitResult struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content"`
}

// elicitAnswer shows a form, or an address. An answer that does not fit leaves the call open.
func (t *turn) elicitAnswer(ctx context.Context, f *protocol.Elicitation) (map[string]any, error) {
	params := map[string]any{"sessionId": t.key.ID, "toolCallId": f.Call.ID, "message": f.Message}
	if f.URL != "" {
		params["mode"], params["url"], params["elicitationId"] = "url", f.URL, f.Call.ID
	} else {
		params["mode"], params["requestedSchema"] = "form", f.Schema
	}
	var result elicitResult
	if err := t.a.conn.askClient(ctx, "elicitation/create", params, &result); err != nil {
		return nil, err
	}
	return f.ReadAnswer(ctx, result.Action, result.Content)
}

// canAuthorize reports whether a call waits for a connection, and the program itself receives the
// authorization server's answer.
func (a *agent) canAuthorize(c *genai.FunctionCall) bool {
	if a.opts.Authorize == nil || c.Name != runtime.RequestCredential {
		return false
	}
	config, _ := c.Args["authConfig"].(map[string]any)
	key, _ := config["credentialKey"].(string)
	return credentials.IsCredentialKey(key)
}

var errDeclined = errors.New("the client's person did not open the address")

// awaitAuthorization returns the answer to a call once the person has authorized its connection. Without an
// authorization the call stays open, and a later prompt shows it again.
func (t *turn) awaitAuthorization(ctx context.Context, c *genai.FunctionCall) (map[string]any, error) {
	var shown error // of the client; read after the authorization
	response, err := t.a.opts.Authorize(ctx, c, t.key, func(ctx context.Context, address, code string) error {
		shown = t.sendAddress(ctx, c.ID, address, code)
		return shown
	})
	switch {
	case ctx.Err() != nil || errors.Is(shown, errLeft):
		return nil, errors.Join(ctx.Err(), shown)
	case errors.Is(shown, errDeclined):
		return nil, nil
	case err != nil:
		return nil, t.updates.sendChunk(ctx, "", newTextBlock(err.Error()+"."), false)
	}
	if t.a.readClient().hasURL() {
		err = t.a.conn.sendNotification(ctx, "elicitation/complete", map[string]any{"elicitationId": c.ID})
	}
	return response, err
}

// sendAddress sends an address by an elicitation, or in words to a client without them.
func (t *turn) sendAddress(ctx context.Context, id, address, code string) error {
	if code != "" {
		code = " Enter the code " + protocol.TruncateText(code, maxShown) + " there."
	}
	if t.a.readClient().hasURL() {
		var result elicitResult
		err := t.a.conn.askClient(ctx, "elicitation/create", map[string]any{
			"sessionId": t.key.ID, "toolCallId": id, "elicitationId": id, "mode": "url", "url": address, "message": "Authorize the connection." + code,
		}, &result)
		switch {
		case ctx.Err() != nil:
			return nil // the authorization has ended
		case errors.Is(err, errLeft):
			return err
		case err == nil && result.Action != protocol.ActionAccept:
			return errDeclined
		case err == nil:
			return nil
		}
		t.a.Logger().Warn("the client did not show an address", "session", t.key.ID, "err", err)
	}
	return t.updates.sendChunk(ctx, "", newTextBlock(fmt.Sprintf("Authorize the connection at %s.%s The answer continues then.", address, code)), false)
}

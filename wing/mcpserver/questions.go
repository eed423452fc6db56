package mcpserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// maxQuestions limits the questions in a call.
const maxQuestions = 16

// A question is a call that waits for a person, as a client asks it.
type question struct {
	form   *protocol.Elicitation
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

// newQuestion returns a call as a question; nil for one that a person cannot answer.
func newQuestion(c *genai.FunctionCall) *question {
	form := protocol.NewElicitation(c)
	if form == nil {
		return nil
	}
	q := &question{form: form, params: &mcp.ElicitParams{Mode: "form", Message: form.Message}}
	if form.URL != "" {
		q.params.Mode, q.params.URL, q.params.ElicitationID = "url", form.URL, c.ID
	} else {
		q.params.RequestedSchema = form.Schema
	}
	return q
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
	return q.form.ReadAnswer(ctx, r.Action, r.Content)
}

// buildMessage returns the answers as the user's message; nil without answers.
func buildMessage(responses map[*question]map[string]any, order []*question) *genai.Content {
	content := &genai.Content{Role: genai.RoleUser}
	for _, q := range order {
		if response := responses[q]; response != nil {
			content.Parts = append(content.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: q.form.Call.ID, Name: q.form.Call.Name, Response: response}})
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

package mcptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// A server asks the user a question during a call (elicitation). The person may answer
// much later, and in another process, so that the call cannot wait:
//
//	callServer ──▶ server asks ──▶ no answer is stored: cancel the question, wait for the
//	   ▲                            end of the call, request a confirmation of it
//	   │                                                    │
//	   └── the person has confirmed, with the answers ◀─────┘
//
// The repeated call answers the same questions with the stored answers. A server must not
// have effects before its question is answered. rounds.go has the same for stateless servers, whose
// question is a call's result.

// The bounds for one call's questions.
const (
	maxQuestions      = 10
	maxQuestionSchema = 16 << 10
	// maxCancelWait is how long a call may take to end after its question was canceled.
	maxCancelWait = 5 * time.Second
)

// elicitKey is the question key in the payload of a confirmation.
const elicitKey = "mcp_elicitation"

// newElicitCall returns the questions for a call, with the answers in its confirmation.
func (l *link) newElicitCall(call *tool.Call, stop func()) *elicitCall {
	c := &elicitCall{link: l, stop: stop}
	if call.Confirmation == nil || call.Requested == nil {
		return c
	}
	requested, _ := call.Requested.Payload.(map[string]any)
	question, ok := requested[elicitKey].(map[string]any)
	if !ok {
		return c // the call's own confirmation
	}
	earlier, _ := question["answers"].([]any)
	for _, v := range earlier {
		one, _ := v.(map[string]any)
		key, _ := one["key"].(string)
		content, _ := one["content"].(map[string]any)
		c.stored = append(c.stored, storedAnswer{key, content})
	}
	key, _ := question["key"].(string)
	fields, _ := call.Confirmation.Payload.(map[string]any)
	c.round = decodeStoredRound(question["round"])
	c.answers, _ = question["id"].(string)
	content, edited := fields["content"].(map[string]any)
	if !edited { // the payload is the fields themselves
		content = maps.Clone(fields)
		delete(content, elicitKey)
	}
	c.stored = append(c.stored, storedAnswer{key, content})
	return c
}

// answerQuestion handles a question: it accepts with the stored answer, or cancels the question and
// keeps it.
func (c *elicitCall) answerQuestion(ctx context.Context, p *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	schema, ok := readQuestionSchema(p)
	if c.count++; !ok || c.count > maxQuestions || c.asked != nil {
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	key := questionKey(p)
	if len(c.stored) > 0 && c.stored[0].key == key {
		given := c.stored[0]
		if content, err := checkAnswer(ctx, schema, given.content); err == nil {
			given.content = content
			c.stored, c.answered = c.stored[1:], append(c.answered, given)
			return &mcp.ElicitResult{Action: "accept", Content: content}, nil
		}
	}
	c.asked = p
	c.timer = time.AfterFunc(maxCancelWait, func() {
		defer safe.Recover(func(s *safe.Panic) { s.Log(c.link.logger, "canceling an MCP call panicked") })
		c.stop()
	})
	return &mcp.ElicitResult{Action: "cancel"}, nil
}

// readQuestionSchema returns a form's schema; ok is false for a question that is refused: a URL to
// open, or a schema that is too large.
func readQuestionSchema(p *mcp.ElicitParams) (schema map[string]any, ok bool) {
	if p.Mode == "url" || p.URL != "" {
		return nil, false
	}
	raw, err := json.Marshal(p.RequestedSchema)
	if err != nil || len(raw) > maxQuestionSchema {
		return nil, false
	}
	schema, _ = p.RequestedSchema.(map[string]any)
	return schema, true
}

// checkAnswer checks an answer against its question's schema.
func checkAnswer(ctx context.Context, schema, content map[string]any) (map[string]any, error) {
	if content == nil {
		content = map[string]any{}
	}
	if schema == nil {
		return content, nil
	}
	return declare.CheckArgs(ctx, &genai.FunctionDeclaration{Name: "answer", ParametersJsonSchema: schema}, content)
}

// questionKey identifies a question by its content.
func questionKey(p *mcp.ElicitParams) string {
	raw, err := json.Marshal([]any{p.Message, p.RequestedSchema})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// requestAnswer requests a confirmation for the call if the server asked a question without a
// stored answer. It returns false if there is none.
func (c *elicitCall) requestAnswer(call *tool.Call) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.asked == nil {
		return false, nil
	}
	answers := []any{}
	for _, a := range c.answered {
		answers = append(answers, map[string]any{"key": a.key, "content": a.content})
	}
	schema, _ := c.asked.RequestedSchema.(map[string]any)
	properties, _ := schema["properties"].(map[string]any)
	content := map[string]any{} // the form's fields with their defaults, or null
	for name, p := range properties {
		property, _ := p.(map[string]any)
		content[name] = property["default"]
	}
	message := c.link.cleanText(c.asked.Message)
	question := map[string]any{
		"key": questionKey(c.asked), "message": message, "answers": answers,
		"requestedSchema": c.link.redactor.RedactValue(session.Normalize(schema)),
	}
	if c.round != nil {
		stored, err := c.round.encodeRound(c.link)
		if err != nil {
			return false, err
		}
		question["round"], question["id"] = stored, c.answers
	}
	call.RequestConfirmation(c.link.server.displayName()+" asks: "+message, map[string]any{elicitKey: question, "content": content})
	return true, nil
}

// handleElicit is the library's handler.
func (l *link) handleElicit(ctx context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	questions := l.questions.Load()
	if questions == nil || req.Params == nil {
		return &mcp.ElicitResult{Action: "cancel"}, nil
	}
	return questions.answerQuestion(ctx, req.Params)
}

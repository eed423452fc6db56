package mcpserver

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"
)

// runStateless runs a call for a client without sessions. A call with a request state answers
// questions, and any other one starts a turn.
func (c *call) runStateless(ctx context.Context) (*mcp.CallToolResult, error) {
	message := c.message
	if c.req.Params.RequestState != "" {
		pending, err := c.openState(ctx, c.req.Params.RequestState)
		if err != nil {
			return nil, err
		}
		questions := c.listQuestions(pending)
		answers, complete := c.readResponses(ctx, questions)
		if !complete {
			return c.askStateless(pending, questions), nil
		}
		if message = buildMessage(answers, questions); message == nil {
			return c.describeWaiting(pending), nil
		}
	} else if len(c.req.Params.InputResponses) > 0 {
		return nil, errNoState
	}
	t, err := c.runTurn(ctx, message)
	if err != nil {
		return failedResult(err.Error()), nil
	}
	if !t.asks && c.req.Params.RequestState == "" {
		return c.buildResult(ctx, t), nil
	}
	pending, err := c.listPending(ctx)
	if err != nil {
		return failedResult(c.describeError(ctx, err).Error()), nil
	}
	questions := c.listQuestions(pending)
	switch {
	case len(pending) == 0:
		return c.buildResult(ctx, t), nil
	case len(questions) == 0:
		return c.describeWaiting(pending), nil
	}
	return c.askStateless(pending, questions), nil
}

// askStateless returns the questions as the call's result.
func (c *call) askStateless(pending []pendingCall, questions []*question) *mcp.CallToolResult {
	result := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: c.encodeState(pending)}
	for _, q := range questions {
		result.InputRequests[q.call.ID] = q.params
	}
	return result
}

// readResponses returns the answers to the questions. It is incomplete if one is missing or does not
// fit: then the result repeats the questions. Answers to other questions are ignored.
func (c *call) readResponses(ctx context.Context, questions []*question) (answers map[*question]map[string]any, complete bool) {
	answers = map[*question]map[string]any{}
	for _, q := range questions {
		given, ok := c.req.Params.InputResponses[q.call.ID].(*mcp.ElicitResult)
		if !ok || given == nil {
			return nil, false
		}
		response, err := q.readResult(ctx, given)
		if err != nil {
			return nil, false
		}
		if response != nil {
			answers[q] = response
		}
	}
	return answers, true
}

// runConversation runs a call for a client with a connection, and asks its questions meanwhile.
func (c *call) runConversation(ctx context.Context) (*mcp.CallToolResult, error) {
	message := c.message
	closed := map[string]bool{} // questions that the person has not answered
	for range maxRounds {
		t, err := c.runTurn(ctx, message)
		if err != nil {
			return failedResult(err.Error()), nil
		}
		if !t.asks && message == c.message {
			return c.buildResult(ctx, t), nil
		}
		pending, err := c.listPending(ctx)
		if err != nil {
			return failedResult(c.describeError(ctx, err).Error()), nil
		}
		if len(pending) == 0 {
			return c.buildResult(ctx, t), nil
		}
		if message = c.askPerson(ctx, c.listQuestions(pending), closed); message == nil {
			return c.describeWaiting(pending), nil
		}
	}
	return failedResult("the call exceeds the limit of 32 rounds of questions"), nil
}

// askPerson sends the questions one by one, and returns the answers as the next message; nil without
// answers. An answer that does not fit leaves its question open.
func (c *call) askPerson(ctx context.Context, questions []*question, closed map[string]bool) *genai.Content {
	ctx, cancel := context.WithTimeout(ctx, c.p.h.opts.AnswerTimeout)
	defer cancel()
	answers := map[*question]map[string]any{}
	for _, q := range questions {
		if closed[q.call.ID] {
			continue
		}
		closed[q.call.ID] = true
		given, err := c.req.Session.Elicit(ctx, q.params)
		if err != nil {
			continue
		}
		if response, err := q.readResult(ctx, given); err == nil && response != nil {
			answers[q] = response
		}
	}
	return buildMessage(answers, questions)
}

// describeWaiting returns what the session waits for, for a client that cannot ask a person.
func (c *call) describeWaiting(pending []pendingCall) *mcp.CallToolResult {
	lines := []string{"The agent waits for a person, and this client cannot ask or has no answer."}
	if !c.hidden {
		lines = append(lines, "Session: "+c.key.ID)
	}
	for i, open := range pending {
		if i == maxQuestions {
			break
		}
		if q := newQuestion(open.call); q != nil {
			lines = append(lines, "- "+strings.ReplaceAll(q.params.Message, "\n", " "))
		} else {
			lines = append(lines, "- the answer to "+cleanQuestion(open.call.Name))
		}
	}
	return failedResult(strings.Join(lines, "\n"))
}

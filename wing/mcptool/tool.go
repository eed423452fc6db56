package mcptool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/toolconfig"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/tool"
)

// Capabilities returns the document's settings.
func (t *serverTool) Capabilities() tool.Capabilities { return t.capabilities }

// Run implements [Tool].
func (t *serverTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(ctx, call)
	if err != nil {
		return nil, err
	}
	return tool.RunWithTimeout(ctx, t.Declaration().Name, t.capabilities.Timeout, func(ctx context.Context) (*tool.Result, error) {
		l, release, err := t.set.acquireLink(ctx, call)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Declaration().Name, err)
		}
		defer release()
		if o := &t.set.server.offer; o.Elicitation || o.Sampling != nil {
			return t.callWithQuestions(ctx, l, call)
		}
		return t.callServer(ctx, l, call, "", callQuestions{})
	})
}

// callServer calls the tool on the server, which reports progress with the token if it is not
// empty. It returns no result if a person must answer a question first, which is questions.person's.
func (t *serverTool) callServer(ctx context.Context, l *link, call *tool.Call, token string, questions callQuestions) (*tool.Result, error) {
	var round *inputRound
	if questions.person != nil {
		round = questions.person.round
	}
	switch task, err := t.findTask(call, questions); {
	case err != nil:
		return nil, t.wrapCallError(ctx, l, err)
	case task != nil:
		return t.continueTask(ctx, l, call, task, questions)
	}
	for range maxRounds {
		params := &mcp.CallToolParams{Name: t.name, Arguments: call.Args}
		if call.Args == nil {
			params.Arguments = map[string]any{}
		}
		if token != "" {
			params.SetProgressToken(token)
		}
		if round != nil {
			switch complete, err := questions.answerRound(ctx, l, round); {
			case err != nil:
				return nil, t.wrapCallError(ctx, l, err)
			case !complete:
				return nil, nil
			}
			params.InputResponses, params.RequestState = round.Responses, round.State
		}
		raw, err := t.sendCall(ctx, l, params, call.Args)
		if err != nil {
			return nil, err
		}
		if isTaskResult(raw) {
			return t.startTask(ctx, l, call, raw, questions)
		}
		if round, err = decodeRound(raw); err != nil {
			return nil, t.wrapCallError(ctx, l, err)
		}
		if round == nil {
			return t.convertResult(l, raw)
		}
	}
	return nil, t.wrapCallError(ctx, l, limitError{fmt.Sprintf("the server asks again after %d rounds of answers, the limit", maxRounds)})
}

// sendCall sends a call's request, and returns its result. With tasks the timeout is the request's,
// because the call may take longer.
func (t *serverTool) sendCall(ctx context.Context, l *link, params *mcp.CallToolParams, args map[string]any) ([]byte, error) {
	if t.set.server.offer.EnableTasks {
		inTime, stop := t.set.server.withCallTimeout(ctx, t.Declaration().Name)
		defer stop()
		ctx = inTime
	}
	ctx = withParamHeaders(ctx, t.paramHeaders, args)
	var raw []byte
	err := l.withConnection(ctx, t.hints.idempotent, func(conn *connection) (err error) {
		if conn.direct != nil {
			raw, err = conn.direct.callTool(ctx, params)
			return err
		}
		res, err := conn.session.CallTool(ctx, params)
		if err == nil {
			raw = unwrapResult(res.Meta)
		}
		return err
	})
	if err != nil {
		return nil, t.wrapCallError(ctx, l, err)
	}
	return raw, nil
}

// callFailed begins the error for a call without a result, as in ADK (adk-python
// tools/mcp_tool/mcp_tool.py).
const callFailed = "MCP tool execution failed: "

// wrapCallError returns the error for a call without a response.
func (t *serverTool) wrapCallError(ctx context.Context, l *link, err error) error {
	broken, unreached, answered, limit := disconnectedError{}, connectError{}, findAnswer(err), limitError{}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, new(*connections.ConsentError)):
		return err
	case errors.As(err, &unreached):
		return fmt.Errorf(callFailed+"%w", unreached.error)
	case errors.As(err, &limit):
		return errors.New(callFailed + limit.text)
	case isUnreadable(err):
		return errors.New(callFailed + "the server answered, but " + l.cleanText(answered.Message))
	case answered != nil:
		return errors.New(callFailed + l.cleanText(answered.Message))
	case errors.As(err, &broken) && !broken.safeToRetry:
		return fmt.Errorf(callFailed+"the connection to %s closed during the call; the call may have been executed", t.set.server.displayName())
	}
	return fmt.Errorf(callFailed+"%s: %s", t.set.server.displayName(), l.cleanText(stripURL(err)))
}

// convertResult converts the server's result as ADK does. ADK returns all that the server sent,
// without what is missing: {"content": […], "isError": false}, structuredContent and _meta
// (adk-python tools/mcp_tool/mcp_tool.py). The warnings describe what was not as in the protocol. A
// result with isError is a call failure, and also the response for the model.
func (t *serverTool) convertResult(l *link, raw []byte) (*tool.Result, error) {
	if limit := int(t.set.server.offer.MaxResult); len(raw) > limit {
		return nil, fmt.Errorf("tool %s: the result of %d bytes exceeds the limit of %d (max_result)", t.Declaration().Name, len(raw), limit)
	}
	if err := tool.CheckResult(raw); err != nil {
		return nil, fmt.Errorf("tool %s: %w", t.Declaration().Name, err)
	}
	res, err := decodeCallResult(raw)
	if err != nil {
		return nil, fmt.Errorf("tool %s: decoding result: %w", t.Declaration().Name, err)
	}
	response := map[string]any{"content": l.redactor.RedactValue(res.content), "isError": res.isError}
	for key, part := range map[string]any{"structuredContent": res.structured, "_meta": withoutProtocolMeta(res.meta)} {
		if part != nil {
			response[key] = l.redactor.RedactValue(part)
		}
	}
	if len(res.faults) > 0 {
		response["warnings"] = l.redactor.RedactValue(res.listFaults())
	}
	preview := toolconfig.Preview(t.set.server.offer.Preview)
	if res.isError {
		text := l.cleanText(res.joinTexts())
		return nil, &tool.AnswerError{Err: fmt.Errorf("tool %s: %s", t.Declaration().Name, text), Response: preview.LimitResponse(response)}
	}
	return &tool.Result{Response: preview.LimitResponse(response)}, nil
}

// withoutProtocolMeta returns a result's _meta without the protocol's own members, such as the name
// of the server, which a stateless server repeats in each result.
func withoutProtocolMeta(meta any) any {
	members, ok := meta.(map[string]any)
	if !ok {
		return meta
	}
	maps.DeleteFunc(members, func(name string, _ any) bool { return strings.HasPrefix(name, "io.modelcontextprotocol/") })
	if len(members) == 0 {
		return nil
	}
	return members
}

// callWithQuestions calls the tool on a server that may ask the user or the model. Calls on one
// connection with a session run one after the other, because a question does not name its call.
func (t *serverTool) callWithQuestions(ctx context.Context, l *link, call *tool.Call) (*tool.Result, error) {
	stateless, err := l.isStateless(ctx)
	if err != nil {
		return nil, t.wrapCallError(ctx, l, err)
	}
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	questions := callQuestions{model: l.newSamplingCall(inner, call)}
	if l.server.offer.Elicitation {
		questions.person = l.newElicitCall(call, cancel)
	}
	if !stateless {
		select {
		case l.asking <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		defer func() { <-l.asking }()
		l.questions.Store(questions.person)
		l.sampling.Store(questions.model)
	}
	result, err := t.callServer(inner, l, call, "", questions)
	if !stateless {
		l.questions.Store(nil)
		l.sampling.Store(nil)
		if inner.Err() != nil {
			l.resetConn() // a late question would belong to no call
		}
	}
	if ctx.Err() == nil && questions.person != nil {
		switch asked, askErr := questions.person.requestAnswer(call); {
		case askErr != nil:
			return nil, t.wrapCallError(ctx, l, askErr)
		case asked:
			return nil, nil
		}
	}
	return result, err
}

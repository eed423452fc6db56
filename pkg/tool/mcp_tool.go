package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An mcpTool is one tool of a server.
type mcpTool struct {
	*declaredTool
	set *mcpSet
	// name is the name on the server, source the tool's entry in the list as JSON.
	name, source string
	// idempotent tools may be called twice, according to the server.
	idempotent bool
}

// Capabilities returns the settings of the document.
func (t *mcpTool) Capabilities() Capabilities { return t.set.capabilities }

// Run implements [Tool].
func (t *mcpTool) Run(ctx context.Context, call *Call) (*Result, error) {
	call, err := t.withCheckedArgs(call)
	if err != nil {
		return nil, err
	}
	return runWithTimeout(ctx, t.decl.Name, t.set.capabilities.Timeout, func(ctx context.Context) (*Result, error) {
		var res *mcp.CallToolResult
		err := t.set.withSession(ctx, t.idempotent, func(session *mcp.ClientSession) (err error) {
			res, err = session.CallTool(ctx, &mcp.CallToolParams{Name: t.name, Arguments: call.Args})
			return err
		})
		if err != nil {
			return nil, t.wrapCallError(ctx, err)
		}
		return t.convertResult(res)
	})
}

// wrapCallError returns the error of a call without a response.
func (t *mcpTool) wrapCallError(ctx context.Context, err error) error {
	broken, unreached := (disconnectedError{}), (connectError{})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &unreached):
		return fmt.Errorf("tool %s: %w", t.decl.Name, unreached.error)
	case errors.As(err, &broken) && !broken.safeToRetry:
		return fmt.Errorf("tool %s: the connection to %s closed during the call; the call may have been executed", t.decl.Name, t.set.server.displayName())
	}
	return fmt.Errorf("tool %s: %s: %s", t.decl.Name, t.set.server.displayName(), t.set.redactor.RedactString(stripURL(err)))
}

// convertResult converts the server's result as ADK does: {"content": […],
// "isError": false}, plus structuredContent if present (adk-python
// tools/mcp_tool/mcp_tool.py). A result with isError is a failure of the call,
// and also the response for the model.
func (t *mcpTool) convertResult(res *mcp.CallToolResult) (*Result, error) {
	raw, err := json.Marshal(res)
	if err != nil {
		return nil, fmt.Errorf("tool %s: decoding result: %w", t.decl.Name, err)
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return nil, fmt.Errorf("tool %s: decoding result: %w", t.decl.Name, err)
	}
	response := map[string]any{"content": []any{}, "isError": res.IsError}
	for _, key := range []string{"content", "structuredContent"} {
		if part, ok := asMap(v)[key]; ok && part != nil {
			response[key] = t.set.redactor.RedactValue(part)
		}
	}
	if res.IsError {
		text := t.set.redactor.RedactString(joinTexts(res.Content))
		return nil, &AnswerError{fmt.Errorf("tool %s: %s", t.decl.Name, text), response}
	}
	return &Result{Response: response}, nil
}

// joinTexts joins the text parts of a content.
func joinTexts(content []mcp.Content) string {
	var texts []string
	for _, c := range content {
		if text, ok := c.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	if len(texts) == 0 {
		return "the server returned an error without a message"
	}
	return strings.Join(texts, "\n")
}

package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/policy"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A serverTool is one tool of a server.
type serverTool struct {
	*tool.Declared
	set *serverSet
	// name is the name on the server, source the tool's entry in the list as JSON.
	name, source string
	// idempotent tools may be called twice, according to the server.
	idempotent bool
}

// Capabilities returns the settings of the document.
func (t *serverTool) Capabilities() tool.Capabilities { return t.set.capabilities }

// Run implements [Tool].
func (t *serverTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	call, err := t.CheckCall(call)
	if err != nil {
		return nil, err
	}
	return tool.RunWithTimeout(ctx, t.Declaration().Name, t.set.capabilities.Timeout, func(ctx context.Context) (*tool.Result, error) {
		return t.callServer(ctx, call, "")
	})
}

// callServer calls the tool on the server, which reports progress with the token if it is not
// empty.
func (t *serverTool) callServer(ctx context.Context, call *tool.Call, token string) (*tool.Result, error) {
	params := &mcp.CallToolParams{Name: t.name, Arguments: call.Args}
	if token != "" {
		params.SetProgressToken(token)
	}
	var res *mcp.CallToolResult
	err := t.set.withSession(ctx, t.idempotent, func(session *mcp.ClientSession) (err error) {
		res, err = session.CallTool(ctx, params)
		return err
	})
	if err != nil {
		return nil, t.wrapCallError(ctx, err)
	}
	return t.convertResult(res)
}

// wrapCallError returns the error of a call without a response.
func (t *serverTool) wrapCallError(ctx context.Context, err error) error {
	broken, unreached := (disconnectedError{}), (connectError{})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &unreached):
		return fmt.Errorf("tool %s: %w", t.Declaration().Name, unreached.error)
	case errors.As(err, &broken) && !broken.safeToRetry:
		return fmt.Errorf("tool %s: the connection to %s closed during the call; the call may have been executed", t.Declaration().Name, t.set.server.displayName())
	}
	return fmt.Errorf("tool %s: %s: %s", t.Declaration().Name, t.set.server.displayName(), t.set.redactor.RedactString(stripURL(err)))
}

// convertResult converts the server's result as ADK does: {"content": […],
// "isError": false}, plus structuredContent if present (adk-python
// tools/mcp_tool/mcp_tool.py). A result with isError is a failure of the call,
// and also the response for the model.
func (t *serverTool) convertResult(res *mcp.CallToolResult) (*tool.Result, error) {
	raw, err := json.Marshal(res)
	if err != nil {
		return nil, fmt.Errorf("tool %s: decoding result: %w", t.Declaration().Name, err)
	}
	fields, err := session.DecodeMap(raw)
	if err != nil {
		return nil, fmt.Errorf("tool %s: decoding result: %w", t.Declaration().Name, err)
	}
	response := map[string]any{"content": []any{}, "isError": res.IsError}
	for _, key := range []string{"content", "structuredContent"} {
		if part, ok := fields[key]; ok && part != nil {
			response[key] = t.set.redactor.RedactValue(part)
		}
	}
	if res.IsError {
		text := t.set.redactor.RedactString(joinTexts(res.Content))
		return nil, &tool.AnswerError{Err: fmt.Errorf("tool %s: %s", t.Declaration().Name, text), Response: response}
	}
	return &tool.Result{Response: response}, nil
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

// errConnectTimeout is the cancellation cause when a server does not respond in
// time.
var errConnectTimeout = errors.New("connect timeout exceeded")

// A connectError reports a server that cannot be reached, with a complete
// message.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// withConnectTimeout bounds connecting and listing tools.
func (s *serverSet) withConnectTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.server.connectTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.server.connectTimeout, errConnectTimeout)
}

// describeError formats a failure for the operator: the server, the reason and
// what to check.
func (s *serverSet) describeError(ctx context.Context, err error) error {
	if made := (connectError{}); errors.As(err, &made) {
		return made.error
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errConnectTimeout) {
		return cause
	}
	return fmt.Errorf("%s: %s", s.server.displayName(), s.redactor.RedactString(s.errorReason(ctx, err)))
}

func (s *serverSet) errorReason(ctx context.Context, err error) string {
	refused := (*policy.Refused)(nil)
	switch {
	case errors.Is(context.Cause(ctx), errConnectTimeout):
		return fmt.Sprintf("no response within %s; increase connect_timeout to wait longer", tool.FormatDuration(s.server.connectTimeout))
	case errors.As(err, &refused):
		return refused.Error()
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("program %s not found; install it on the host, or use its absolute path", s.server.command[0].Value)
	case len(s.server.command) > 0:
		if line := s.stderr.lastLine(); line != "" {
			s.logger.Warn("mcp server failed", "server", s.server.displayName(), "stderr", s.redactor.RedactString(line))
			return fmt.Sprintf("the server program failed: %s; the host log has its last line of output", stripURL(err))
		}
		return fmt.Sprintf("the server program failed: %s; run it manually to see why", stripURL(err))
	}
	return fmt.Sprintf("server unreachable: %s; check that it is running, and check url, transport and headers", stripURL(err))
}

// stripURL returns the innermost reason of a failed request: the outer errors
// contain the URL, which may contain a key.
func stripURL(err error) string {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return ue.Err.Error()
	}
	return err.Error()
}

func hostOfURL(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return "without a URL"
}

func baseName(name string) string { return path.Base(filepath.ToSlash(name)) }

// isLocalPath reports whether a path stays inside the folder that it starts in.
func isLocalPath(name string) bool {
	return !strings.Contains(name, `\`) && filepath.IsLocal(filepath.FromSlash(name))
}

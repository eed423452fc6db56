package mcptool

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/policy"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A serverTool is one tool of a server.
type serverTool struct {
	*tool.Declared
	set *serverSet
	// name is the name on the server, source the tool's entry in the list as JSON.
	name, source string
	// hints are what the server declares about the tool.
	hints        annotations
	capabilities tool.Capabilities
}

// Capabilities returns the settings of the document.
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
		return t.callServer(ctx, l, call, "")
	})
}

// callServer calls the tool on the server, which reports progress with the token if it is not
// empty.
func (t *serverTool) callServer(ctx context.Context, l *link, call *tool.Call, token string) (*tool.Result, error) {
	params := &mcp.CallToolParams{Name: t.name, Arguments: call.Args}
	if token != "" {
		params.SetProgressToken(token)
	}
	var res *mcp.CallToolResult
	err := l.withSession(ctx, t.hints.idempotent, func(session *mcp.ClientSession) (err error) {
		res, err = session.CallTool(ctx, params)
		return err
	})
	if err != nil {
		return nil, t.wrapCallError(ctx, l, err)
	}
	return t.convertResult(l, unwrapResult(res.Meta))
}

// callFailed begins the error of a call without a result, as in ADK (adk-python
// tools/mcp_tool/mcp_tool.py).
const callFailed = "MCP tool execution failed: "

// wrapCallError returns the error of a call without a response.
func (t *serverTool) wrapCallError(ctx context.Context, l *link, err error) error {
	broken, unreached, answered := disconnectedError{}, connectError{}, findAnswer(err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &unreached):
		return fmt.Errorf(callFailed+"%w", unreached.error)
	case isUnreadable(err):
		return errors.New(callFailed + "the server answered, but " + l.cleanText(answered.Message))
	case answered != nil:
		return errors.New(callFailed + l.cleanText(answered.Message))
	case errors.As(err, &broken) && !broken.safeToRetry:
		return fmt.Errorf(callFailed+"the connection to %s closed during the call; the call may have been executed", t.set.server.displayName())
	}
	return fmt.Errorf(callFailed+"%s: %s", t.set.server.displayName(), l.cleanText(stripURL(err)))
}

// maxErrorText bounds the text of a server in an error, in characters.
const maxErrorText = 2000

// cleanText returns text of the server for an error: without secrets, bounded.
func (l *link) cleanText(text string) string {
	return cutText(l.redactor.redactString(cleanText(text)), maxErrorText)
}

// convertResult converts the server's result as ADK does, which returns all that the server
// sent, without what is missing: {"content": […], "isError": false}, structuredContent and
// _meta (adk-python tools/mcp_tool/mcp_tool.py). The warnings describe what was not as in the
// protocol. A result with isError is a failure of the call, and also the response for the
// model.
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
	response := map[string]any{"content": l.redactor.redactValue(res.content), "isError": res.isError}
	for key, part := range map[string]any{"structuredContent": res.structured, "_meta": res.meta} {
		if part != nil {
			response[key] = l.redactor.redactValue(part)
		}
	}
	if len(res.faults) > 0 {
		response["warnings"] = l.redactor.redactValue(res.listFaults())
	}
	if res.isError {
		text := l.cleanText(res.joinTexts())
		return nil, &tool.AnswerError{Err: fmt.Errorf("tool %s: %s", t.Declaration().Name, text), Response: response}
	}
	return &tool.Result{Response: response}, nil
}

// errConnectTimeout is the cancellation cause when a server does not respond in
// time.
var errConnectTimeout = errors.New("connect timeout exceeded")

// A connectError reports a server that cannot be reached, with a complete
// message.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// withConnectTimeout bounds connecting and listing tools.
func (s *server) withConnectTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.connectTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.connectTimeout, errConnectTimeout)
}

// describeError formats a failure for the operator: the server, the reason and
// what to check.
func (l *link) describeError(ctx context.Context, err error) error {
	if made := (connectError{}); errors.As(err, &made) {
		return made.error
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errConnectTimeout) {
		return cause
	}
	return fmt.Errorf("%s: %s", l.server.displayName(), l.redactor.redactString(l.errorReason(ctx, err)))
}

func (l *link) errorReason(ctx context.Context, err error) string {
	refused := (*policy.Refused)(nil)
	limit, answered, fault := limitError{}, findAnswer(err), faultError{}
	switch {
	case errors.As(err, &limit):
		return limit.text
	case isUnreadable(err) && len(l.server.command) == 0:
		return l.cleanText(answered.Message) + "; check url and transport"
	case isUnreadable(err):
		return l.cleanText(answered.Message)
	case errors.As(err, &fault):
		return fault.Error()
	case answered != nil:
		return "the server reports: " + l.cleanText(answered.Message)
	case errors.Is(context.Cause(ctx), errConnectTimeout):
		return fmt.Sprintf("no response within %s; increase connect_timeout to wait longer", tool.FormatDuration(l.server.connectTimeout))
	case errors.As(err, &refused):
		return refused.Error()
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("program %s not found; install it on the host, or use its absolute path", l.server.command[0].Value)
	case len(l.server.command) > 0:
		if line := l.stderr.lastLine(); line != "" {
			l.logger.Warn("mcp server failed", "server", l.server.displayName(), "stderr", l.redactor.redactString(line))
			return fmt.Sprintf("the server program failed: %s; the host log has its last line of output", stripURL(err))
		}
		return fmt.Sprintf("the server program failed: %s; run it manually to see why", stripURL(err))
	}
	return fmt.Sprintf("server unreachable: %s; check that it is running, and check url, transport and headers", stripURL(err))
}

// stripURL returns the innermost reason of a failed request: the outer errors
// contain the URL, which may contain a key. It contains no directories of the host.
func stripURL(err error) string {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return spec.ClientText(ue.Err)
	}
	return spec.ClientText(err)
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

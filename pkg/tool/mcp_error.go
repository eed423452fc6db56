package tool

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"agenthost/internal/policy"
)

// errConnectTimeout is the cancellation cause when a server does not respond in
// time.
var errConnectTimeout = errors.New("connect timeout exceeded")

// A connectError reports a server that cannot be reached, with a complete
// message.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// withConnectTimeout bounds connecting and listing tools.
func (s *mcpSet) withConnectTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.server.connectTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.server.connectTimeout, errConnectTimeout)
}

// describeError formats a failure for the operator: the server, the reason and
// what to check.
func (s *mcpSet) describeError(ctx context.Context, err error) error {
	if made := (connectError{}); errors.As(err, &made) {
		return made.error
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errConnectTimeout) {
		return cause
	}
	return fmt.Errorf("%s: %s", s.server.displayName(), s.redactor.RedactString(s.errorReason(ctx, err)))
}

func (s *mcpSet) errorReason(ctx context.Context, err error) string {
	refused := (*policy.Refused)(nil)
	switch {
	case errors.Is(context.Cause(ctx), errConnectTimeout):
		return fmt.Sprintf("no response within %s; increase connect_timeout to wait longer", formatDuration(s.server.connectTimeout))
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

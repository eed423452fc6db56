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

	"agenthost/pkg/policy"
)

// errConnectTimeout is the cause of giving up on a server that does not answer.
var errConnectTimeout = errors.New("no answer in time")

// A connectError is that of a server that cannot be reached, told already.
type connectError struct{ error }

func (e connectError) Unwrap() error { return e.error }

// withConnectTimeout is the time that the server has for its first answers.
func (s *mcpSet) withConnectTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.server.connectTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.server.connectTimeout, errConnectTimeout)
}

// describeError is a failure in words for the one who runs the app: which server it is, what
// happened, and what to look at.
func (s *mcpSet) describeError(ctx context.Context, err error) error {
	if made := (connectError{}); errors.As(err, &made) {
		return made.error
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errConnectTimeout) {
		return cause
	}
	return fmt.Errorf("%s: %s", s.server.displayName(), s.redactor.Text(s.errorReason(ctx, err)))
}

func (s *mcpSet) errorReason(ctx context.Context, err error) string {
	refused := (*policy.Refused)(nil)
	switch {
	case errors.Is(context.Cause(ctx), errConnectTimeout):
		return fmt.Sprintf("no answer within %s; connect_timeout gives it more time", formatDuration(s.server.connectTimeout))
	case errors.As(err, &refused):
		return refused.Error()
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Sprintf("there is no program %s: install it where the host runs, or write its whole path", s.server.command[0].Value)
	case len(s.server.command) > 0:
		if said := s.stderr.lastLine(); said != "" {
			s.logger.Warn("an mcp server does not serve", "server", s.server.displayName(), "says", s.redactor.Text(said))
			return fmt.Sprintf("the program does not serve: %s; the host's log has the last that it said", stripURL(err))
		}
		return fmt.Sprintf("the program does not serve: %s; run it by hand to see why", stripURL(err))
	}
	return fmt.Sprintf("it cannot be reached: %s; look whether it runs, and at url, transport and headers", stripURL(err))
}

// stripURL is the innermost reason of a request that failed: what is around
// it has the address, which may hold a key.
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
	return "without an address"
}

func baseName(name string) string { return path.Base(filepath.ToSlash(name)) }

// isLocalPath says whether a path stays below the folder that it begins in.
func isLocalPath(name string) bool {
	return !strings.Contains(name, `\`) && filepath.IsLocal(filepath.FromSlash(name))
}

package tool

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/spec"
)

// terminateGrace is how long a program may take to exit by itself, and again
// after SIGTERM.
const terminateGrace = 2 * time.Second

func (s *mcpServer) newDialer(env Env, words *stderrTail) transportDialer {
	switch {
	case len(s.command) > 0:
		return func(ctx context.Context) (mcp.Transport, func()) {
			cmd := s.newCommand(ctx, env.Dir)
			cmd.Stderr = words
			return &mcp.CommandTransport{Command: cmd, TerminateDuration: terminateGrace}, func() { killProcessGroup(cmd) }
		}
	case s.sse:
		client := s.newHTTPClient(env.HTTP)
		return func(context.Context) (mcp.Transport, func()) {
			return &mcp.SSEClientTransport{Endpoint: s.url.Value, HTTPClient: client}, func() {}
		}
	}
	client := s.newHTTPClient(env.HTTP)
	if s.skipTerminate {
		client.Transport = &noTerminateTransport{client.Transport}
	}
	return func(context.Context) (mcp.Transport, func()) {
		// Each run lists the tools, so notifications between runs are not needed.
		return &mcp.StreamableClientTransport{Endpoint: s.url.Value, HTTPClient: client, DisableStandaloneSSE: true}, func() {}
	}
}

// newCommand returns the command in its own process group, killed when the
// context ends.
func (s *mcpServer) newCommand(ctx context.Context, dir string) *exec.Cmd {
	argv := s.commandArgs()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(dir, filepath.FromSlash(s.cwd.Value))
	cmd.Env = inheritedEnv()
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value.Reveal())
	}
	cmd.WaitDelay = terminateGrace
	setProcessGroup(cmd)
	return cmd
}

// inheritedEnv returns the variables that a program inherits from the host:
// what it needs to run, and nothing that may be secret (as in ADK: mcp
// client/stdio get_default_environment).
func inheritedEnv() []string {
	var env []string
	for _, name := range []string{
		"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
		"APPDATA", "LOCALAPPDATA", "PATHEXT", "SYSTEMROOT", "TEMP", "USERPROFILE",
	} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// newHTTPClient returns a client that sends the configured headers to the
// server, and to no other host.
func (s *mcpServer) newHTTPClient(c *http.Client) *http.Client {
	client := guardRedirects(c)
	home, _ := url.Parse(s.url.Value)
	client.Transport = &headerTransport{next: client.Transport, target: home, headers: s.headers}
	return client
}

// A headerTransport adds headers to requests to one host.
type headerTransport struct {
	next    http.RoundTripper
	target  *url.URL
	headers map[string]spec.Secret
}

// RoundTrip implements [http.RoundTripper].
func (h *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	next := h.next
	if next == nil {
		next = http.DefaultTransport
	}
	if h.target == nil || req.URL.Host != h.target.Host || req.URL.Scheme != h.target.Scheme {
		return next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	for name, value := range h.headers {
		req.Header.Set(name, value.Reveal())
	}
	return next.RoundTrip(req)
}

// A noTerminateTransport does not terminate the session on the server: it drops
// DELETE requests (MCP, streamable HTTP, session management).
type noTerminateTransport struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (s *noTerminateTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodDelete {
		return &http.Response{StatusCode: http.StatusNoContent, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	}
	return s.next.RoundTrip(req)
}

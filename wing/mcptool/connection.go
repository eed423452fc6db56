package mcptool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/limit"
	"agenthost/internal/policy"
	"agenthost/internal/safe"
	"agenthost/internal/toolhttp"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// The protocol has two eras. Since statelessVersion each request describes itself, and
// server/discover describes the server; before, a session starts with initialize.
const (
	statelessVersion = "2026-07-28"
	sessionVersion   = "2025-11-25"
)

// maxDiscoverWait bounds the wait for the answer to server/discover: some servers never respond to
// any first request but initialize.
const maxDiscoverWait = 5 * time.Second

// errNoDiscovery is the cancellation cause when a server does not respond to server/discover.
var errNoDiscovery = errors.New("no response to server/discover")

// openConn connects within the deadline of ctx. The connection outlives ctx. server/discover is the
// first request. If the server answers with an error, the library sends initialize over the same
// connection; if it does not answer, or closes the connection, initialize goes over another one. A
// server with sessions is remembered, and gets initialize first from then on.
func (l *link) openConn(ctx context.Context) (*connection, error) {
	if !l.server.sse && !l.hasSessions.Load() {
		inTime, stop := context.WithTimeoutCause(ctx, discoverWait(ctx, time.Now()), errNoDiscovery)
		defer stop()
		conn, unheard, err := l.connectAs(inTime, statelessVersion)
		if err == nil {
			l.hasSessions.Store(!conn.isStateless)
			l.checkTasks(conn)
		}
		if !unheard || ctx.Err() != nil {
			return conn, err
		}
	}
	conn, _, err := l.connectAs(ctx, sessionVersion)
	l.hasSessions.Store(err == nil)
	l.checkTasks(conn)
	return conn, err
}

// checkTasks logs that a server with sessions has no tasks.
func (l *link) checkTasks(conn *connection) {
	if l.server.offer.EnableTasks && conn != nil && !conn.isStateless {
		l.logger.Warn("mcp server has sessions, enable_tasks has no effect", "server", l.server.displayName())
	}
}

// discoverWait returns how long to wait for the answer to server/discover: at most half of the time
// that ctx leaves.
func discoverWait(ctx context.Context, now time.Time) time.Duration {
	if end, ok := ctx.Deadline(); ok {
		return min(maxDiscoverWait, end.Sub(now)/2)
	}
	return maxDiscoverWait
}

// connectAs connects with the version, or an older one that the server has. unheard is set if the
// server closed the connection, or did not respond, before it received initialize.
func (l *link) connectAs(ctx context.Context, version string) (c *connection, unheard bool, err error) {
	life, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	inTime := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	guard := newGuard(life, cancel, time.Now)
	way := l.dial(life, guard)
	client := mcp.NewClient(&mcp.Implementation{Name: "agenthost", Version: "1"}, l.newClientOptions())
	if err := addTaskMethods(client); err != nil {
		cancel(nil)
		way.leave()
		return nil, false, err
	}
	session, err := client.Connect(life, way.transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	late := !inTime()
	if err != nil {
		if fault := (faultError{}); errors.As(context.Cause(life), &fault) {
			err = fault
		}
		unheard = guard.isDiscovering() || errors.Is(context.Cause(life), errNoDiscovery)
		cancel(nil)
		way.leave()
		return nil, unheard, err
	}
	c = &connection{
		session: session, cancel: cancel, closed: make(chan struct{}), cause: func() error { return context.Cause(life) },
		isStateless: session.InitializeResult().ProtocolVersion >= statelessVersion,
	}
	if c.isStateless {
		c.direct = way.direct
	}
	// The library notices that the context has ended only at its next request.
	stop := context.AfterFunc(life, func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(l.logger, "closing an MCP connection panicked") })
		_ = session.Close()
	})
	go func() {
		defer close(c.closed)
		defer cancel(nil)
		defer safe.Recover(func(p *safe.Panic) { p.Log(l.logger, "MCP connection panicked") })
		defer way.leave()
		_ = session.Wait() // the next request reports the error
		stop()
		_ = session.Close()
	}()
	if late {
		c.abort()
		return nil, false, context.Cause(ctx)
	}
	return c, false, nil
}

// newClientOptions returns the handlers for what the server sends. There is none for roots, so that
// the client does not declare them. callServer answers questions in results itself.
func (l *link) newClientOptions() *mcp.ClientOptions {
	opts := &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, ProgressNotificationHandler: l.progress.receiveProgress,
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	}
	if l.server.offer.EnableTasks {
		opts.Capabilities.AddExtension(tasksExtension, map[string]any{})
	}
	if len(l.server.command) > 0 || l.server.listCache > 0 { // a stateless server gets a subscription for them
		opts.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { l.lists.tools.dropLists() }
		opts.ResourceListChangedHandler = func(context.Context, *mcp.ResourceListChangedRequest) { l.lists.resources.dropLists() }
		opts.PromptListChangedHandler = func(context.Context, *mcp.PromptListChangedRequest) { l.lists.dropPrompts() }
	}
	if l.server.offer.Elicitation {
		opts.ElicitationHandler = l.handleElicit
	}
	if l.server.offer.Sampling != nil { // the server may use the model
		//lint:ignore SA1019 servers use sampling until MCP removes it
		opts.CreateMessageHandler = l.handleSampling
	}
	return opts
}

// isAlive reports whether the connection is still open.
func (c *connection) isAlive() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.closed:
		return false
	default:
		return true
	}
}

// close shuts the connection down gracefully, and waits until it is closed. A server that accepts
// nothing any more, such as the response to its own request, gets closeGrace.
func (c *connection) close() {
	if c == nil {
		return
	}
	timer := time.AfterFunc(closeGrace, func() { c.cancel(nil) })
	defer timer.Stop()
	_ = c.session.Close() // the server may have closed it first
	<-c.closed
}

// findFault returns why agenthost closed the connection, if the server exceeded a limit.
func (c *connection) findFault() error {
	if fault := (faultError{}); errors.As(c.cause(), &fault) {
		return fault
	}
	return nil
}

// closeGrace is how long a connection may take to close: longer than terminateGrace twice.
const closeGrace = 6 * time.Second

// abort cancels the connection, and waits until it is closed.
func (c *connection) abort() {
	c.cancel(nil)
	c.close()
}

// newDialer returns a link's dialer with these headers.
func (s *server) newDialer(env tool.Env, l *link, header http.Header) transportDialer {
	switch {
	case len(s.command) > 0:
		return func(ctx context.Context, guard *connGuard) way {
			cmd := s.newCommand(ctx, env.Dir)
			cmd.Stderr = l.stderr
			return way{transport: &programTransport{command: cmd, filter: l.newFilter(guard)}, leave: func() { killProcessGroup(cmd) }}
		}
	case s.sse:
		client := s.newHTTPClient(env, l, header)
		return func(_ context.Context, guard *connGuard) way {
			messages := l.newMessageTransport(client, guard, false)
			return way{transport: &mcp.SSEClientTransport{Endpoint: s.url.Value, HTTPClient: withTransport(client, messages), MaxEventSize: -1}, leave: func() {}}
		}
	}
	client := s.newHTTPClient(env, l, header)
	if s.skipTerminate {
		client.Transport = &noTerminateTransport{client.Transport}
	}
	return func(_ context.Context, guard *connGuard) way {
		// Without a cache each run lists the tools, so notifications between runs are not needed. A
		// server's question may come over the stream that belongs to no request, as in the official
		// TypeScript SDK.
		asks := s.offer.Elicitation || s.offer.Sampling != nil
		messages := l.newMessageTransport(client, guard, true)
		return way{
			transport: &mcp.StreamableClientTransport{
				Endpoint: s.url.Value, HTTPClient: withTransport(client, messages), DisableStandaloneSSE: s.listCache <= 0 && !asks, MaxEventSize: -1,
			},
			direct: &directCaller{link: l, client: withTransport(client, &callTransport{messages}), filter: messages.filter},
			leave:  func() {},
		}
	}
}

// newMessageTransport returns the transport for a new connection. It repairs server messages.
func (l *link) newMessageTransport(client *http.Client, guard *connGuard, answersPosts bool) *messageTransport {
	return &messageTransport{next: client.Transport, filter: l.newFilter(guard), answersPosts: answersPosts}
}

// withTransport returns a client like this one with another transport.
func withTransport(client *http.Client, transport http.RoundTripper) *http.Client {
	other := *client
	other.Transport = transport
	return &other
}

// newCommand returns the command in its own process group, killed when the
// context ends.
func (s *server) newCommand(ctx context.Context, dir string) *exec.Cmd {
	argv := s.commandArgs()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(dir, filepath.FromSlash(s.cwd.Value))
	// The program inherits what it needs to run, and nothing that may be secret (as in ADK: mcp
	// client/stdio get_default_environment).
	for _, name := range []string{
		"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
		"APPDATA", "LOCALAPPDATA", "PATHEXT", "SYSTEMROOT", "TEMP", "USERPROFILE",
	} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	for name, value := range s.env {
		cmd.Env = append(cmd.Env, name+"="+value.Reveal())
	}
	cmd.WaitDelay = terminateGrace
	setProcessGroup(cmd)
	return cmd
}

// newHTTPClient returns a client that sends the headers and the credential to the server,
// and to no other host, and bounds the responses.
func (s *server) newHTTPClient(env tool.Env, l *link, header http.Header) *http.Client {
	client := toolhttp.GuardRedirects(env.HTTP)
	home, _ := url.Parse(s.url.Value)
	client.Transport = &headerTransport{next: client.Transport, target: home, header: header, link: l, connection: env.Connection}
	return client
}

// A headerTransport adds headers and the credential to requests to one host, and bounds the
// responses.
type headerTransport struct {
	next   http.RoundTripper
	target *url.URL
	header http.Header
	// link redacts the connection's credential, which may be nil.
	link       *link
	connection *connections.Connection
}

// RoundTrip implements [http.RoundTripper].
func (h *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	next := h.next
	if next == nil {
		next = http.DefaultTransport
	}
	send := next.RoundTrip
	if h.target != nil && req.URL.Host == h.target.Host && req.URL.Scheme == h.target.Scheme && !connections.HasLeftHost(req) {
		req = req.Clone(req.Context())
		for name := range h.header {
			req.Header.Set(name, h.header.Get(name))
		}
		send = func(req *http.Request) (*http.Response, error) {
			resp, secrets, err := h.connection.RoundTrip(next, req, h.link.user)
			h.link.redactor.AddSecrets(secrets)
			return resp, err
		}
	}
	resp, err := send(req)
	h.link.isRejected.Store(err == nil && resp.StatusCode == http.StatusUnauthorized)
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &boundedBody{resp.Body, limit.MCPMessage.Bytes} // eventReader bounds events
	}
	return resp, err
}

// A boundedBody fails when a body is too large.
type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements [io.Reader].
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
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

// closeLink closes the connection, and stops the server program.
func (l *link) closeLink() {
	l.lock <- struct{}{}
	defer l.releaseLock()
	l.closed = true
	l.conn.close()
	l.conn = nil
}

// withSession runs a request on the connection. If the connection turns out to be lost, it
// reconnects and retries once, provided that the server cannot have received the request
// or that repeating it is safe.
func (l *link) withSession(ctx context.Context, repeatable bool, question func(*mcp.ClientSession) error) error {
	return l.withConnection(ctx, repeatable, func(conn *connection) error { return question(conn.session) })
}

// withConnection is withSession for requests of a [directCaller] too.
func (l *link) withConnection(ctx context.Context, repeatable bool, question func(*connection) error) error {
	for again := false; ; again = true {
		conn, err := l.acquireConn(ctx)
		if err != nil {
			return err
		}
		err = question(conn)
		if err == nil || ctx.Err() != nil || isAnswer(err) {
			return err
		}
		fault := conn.findFault()
		l.discardConn(conn)
		if fault != nil {
			return fault
		}
		unheard := errors.Is(err, mcp.ErrSessionMissing) || isDialError(err)
		if again || !repeatable && !unheard {
			return disconnectedError{err, repeatable || unheard}
		}
	}
}

// isDialError reports whether a request was not sent because there was no connection.
func isDialError(err error) bool {
	op := (*net.OpError)(nil)
	return errors.As(err, &op) && op.Op == "dial"
}

// A disconnectedError reports that the connection closed during a request.
type disconnectedError struct {
	error
	safeToRetry bool
}

func (e disconnectedError) Unwrap() error { return e.error }

// acquireConn returns the open connection, or connects.
func (l *link) acquireConn(ctx context.Context) (*connection, error) {
	if err := l.acquireLock(ctx); err != nil {
		return nil, err
	}
	defer l.releaseLock()
	if l.closed {
		return nil, connectError{fmt.Errorf("%s is closed", l.server.displayName())}
	}
	if l.conn.isAlive() {
		return l.conn, nil
	}
	if l.conn != nil {
		l.conn.close()
		l.conn = nil
		l.lists.dropAll() // a new connection may have others
	}
	limit, stop := l.server.withConnectTimeout(ctx)
	defer stop()
	conn, err := l.openConn(limit)
	if err != nil {
		return nil, connectError{l.describeError(limit, err)}
	}
	l.conn = conn
	return conn, nil
}

// isStateless reports whether the server's requests describe themselves. It connects first.
func (l *link) isStateless(ctx context.Context) (bool, error) {
	conn, err := l.acquireConn(ctx)
	return err == nil && conn.isStateless, err
}

// discardConn closes a connection that has failed.
func (l *link) discardConn(conn *connection) {
	l.lock <- struct{}{}
	defer l.releaseLock()
	if l.conn == conn {
		l.conn = nil
		l.lists.dropAll()
	}
	conn.abort()
}

func (l *link) acquireLock(ctx context.Context) error {
	select {
	case l.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *link) releaseLock() { <-l.lock }

// describeError formats a failure for the operator: the server, the reason and
// what to check.
func (l *link) describeError(ctx context.Context, err error) error {
	if made := (connectError{}); errors.As(err, &made) {
		return made.error
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, errConnectTimeout) {
		return cause
	}
	if errors.As(err, new(*connections.ConsentError)) {
		return fmt.Errorf("%s: %w", l.server.displayName(), err)
	}
	return fmt.Errorf("%s: %s", l.server.displayName(), l.redactor.RedactString(l.errorReason(ctx, err)))
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
	case l.isRejected.Load() && l.connection == nil:
		return "the server requires authorization: write auth: oauth, auth: NAME for a connection in app.yaml, or headers"
	case l.isRejected.Load():
		return fmt.Sprintf("the server rejects the credential of connection %s", l.connection.Name())
	case len(l.server.command) > 0:
		if line := l.stderr.lastLine(); line != "" {
			l.logger.Warn("mcp server failed", "server", l.server.displayName(), "stderr", l.redactor.RedactString(line))
			return fmt.Sprintf("the server program failed: %s; the host log has its last line of output", stripURL(err))
		}
		return fmt.Sprintf("the server program failed: %s; run it manually to see why", stripURL(err))
	}
	return fmt.Sprintf("server unreachable: %s; check that it is running, and check url, transport and headers", stripURL(err))
}

// withConnectTimeout bounds connecting and listing tools.
func (s *server) withConnectTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.connectTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, s.connectTimeout, errConnectTimeout)
}

// errConnectTimeout is the cancellation cause when a server does not respond in
// time.
var errConnectTimeout = errors.New("connect timeout exceeded")

// stripURL returns a failed request's innermost reason: the outer errors contain the URL, which may
// contain a key. It contains no host directories.
func stripURL(err error) string {
	if ue := (*url.Error)(nil); errors.As(err, &ue) {
		return spec.ClientText(ue.Err)
	}
	return spec.ClientText(err)
}

// resetConn closes the connection, so that the next request opens another.
func (l *link) resetConn() {
	l.lock <- struct{}{}
	defer l.releaseLock()
	if l.conn != nil {
		l.conn.abort()
		l.conn = nil
		l.lists.dropAll()
	}
}

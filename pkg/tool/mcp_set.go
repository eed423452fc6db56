package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/spec"
)

// An mcpSet is the tools of one server, which is asked for them in each run. The
// connection is made when it is first needed, and again when it has broken.
type mcpSet struct {
	server       *mcpServer
	capabilities Capabilities
	dial         transportDialer
	redactor     *spec.Veil
	stderr       *stderrTail
	logger       *slog.Logger

	// lock is held by whoever looks at what follows; waiting for it can be given up.
	lock   chan struct{}
	conn   *mcpConn
	tools  map[string]*mcpTool
	closed bool
}

// newSet makes the set. It connects to nothing.
func (s *mcpServer) newSet(env Env) (Set, error) {
	confirm, err := CompileConfirm(s.offer.Confirm, anyArgsDeclaration("mcp"))
	if err != nil {
		return nil, err
	}
	words := &stderrTail{}
	set := &mcpSet{
		server: s, dial: s.newDialer(env, words), stderr: words, redactor: newRedactor(s.headers, s.env), logger: env.Logger,
		capabilities: Capabilities{Timeout: s.callTimeout, FailOnError: s.offer.OnError == "fail", Confirm: confirm},
		lock:         make(chan struct{}, 1), tools: map[string]*mcpTool{},
	}
	if env.Offline {
		return offlineSet{set}, nil
	}
	return set, nil
}

// Dynamic says that the tools are not known before a run asks for them.
func (s *mcpSet) Dynamic() bool { return true }

// Tools asks the server which tools it has now.
func (s *mcpSet) Tools(ctx context.Context) ([]Tool, error) {
	limit, stop := s.withConnectTimeout(ctx)
	defer stop()
	var listed []*mcp.Tool
	err := s.withSession(limit, true, func(session *mcp.ClientSession) error {
		listed = nil
		for t, err := range session.Tools(limit, nil) {
			if err != nil {
				return err
			}
			listed = append(listed, t)
		}
		return nil
	})
	if err != nil {
		return nil, s.describeError(limit, err)
	}
	return s.selectTools(ctx, listed)
}

// Close ends the connection, and with it the program that is the server.
func (s *mcpSet) Close() error {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	s.closed = true
	s.conn.close()
	s.conn = nil
	return nil
}

// selectTools are the listed tools that the document wants.
func (s *mcpSet) selectTools(ctx context.Context, listed []*mcp.Tool) ([]Tool, error) {
	if err := s.acquireLock(ctx); err != nil {
		return nil, err
	}
	defer s.releaseLock()
	var tools []Tool
	var names []string
	for _, t := range listed {
		names = append(names, t.Name)
		if filter := s.server.offer.ToolFilter; len(filter) > 0 && !slices.Contains(filter, t.Name) {
			continue
		}
		made, err := s.reuseTool(t)
		if err != nil {
			s.logger.Warn("a tool of an mcp server cannot be offered", "server", s.server.displayName(), "tool", t.Name, "error", err)
			continue
		}
		tools = append(tools, made)
	}
	if len(tools) == 0 && len(s.server.offer.ToolFilter) > 0 {
		return nil, fmt.Errorf("%s has none of the tools that tool_filter names; it has: %s", s.server.displayName(), strings.Join(names, ", "))
	}
	return tools, nil
}

// reuseTool is that of an entry of the list. One that has not changed is the one of
// before: reading its schema takes its time.
func (s *mcpSet) reuseTool(listed *mcp.Tool) (*mcpTool, error) {
	raw, err := json.Marshal(listed)
	if err != nil {
		return nil, err
	}
	if known := s.tools[listed.Name]; known != nil && known.source == string(raw) {
		return known, nil
	}
	d, err := newDeclaredTool(s.server.prefixedName(listed.Name), listed.Description, asMap(listed.InputSchema))
	if err != nil {
		return nil, err
	}
	t := &mcpTool{declaredTool: d, set: s, name: listed.Name, source: string(raw)}
	if a := listed.Annotations; a != nil {
		t.idempotent = a.ReadOnlyHint || a.IdempotentHint
	}
	s.tools[listed.Name] = t
	return t, nil
}

func (s *mcpServer) prefixedName(name string) string {
	if s.offer.ToolNamePrefix == "" {
		return name
	}
	return s.offer.ToolNamePrefix + "_" + name
}

// withSession puts a question to the server. Where the connection turns out to be dead it
// is made anew, and the question put again if the server cannot have heard it, or
// if hearing it twice does no harm.
func (s *mcpSet) withSession(ctx context.Context, repeatable bool, question func(*mcp.ClientSession) error) error {
	for again := false; ; again = true {
		conn, err := s.acquireConn(ctx)
		if err != nil {
			return err
		}
		err = question(conn.session)
		answered := (*jsonrpc.Error)(nil)
		if err == nil || ctx.Err() != nil || errors.As(err, &answered) {
			return err
		}
		s.discardConn(conn)
		unheard := errors.Is(err, mcp.ErrSessionMissing)
		if again || !repeatable && !unheard {
			return disconnectedError{err, repeatable || unheard}
		}
	}
}

// A brokenError is that of a connection that ended while somebody waited.
type disconnectedError struct {
	error
	safeToRetry bool
}

// acquireConn is the connection, which is made if there is none that lives.
func (s *mcpSet) acquireConn(ctx context.Context) (*mcpConn, error) {
	if err := s.acquireLock(ctx); err != nil {
		return nil, err
	}
	defer s.releaseLock()
	if s.closed {
		return nil, connectError{fmt.Errorf("%s is closed", s.server.displayName())}
	}
	if s.conn.isAlive() {
		return s.conn, nil
	}
	s.conn.close()
	s.conn = nil
	limit, stop := s.withConnectTimeout(ctx)
	defer stop()
	conn, err := connectMCP(limit, s.dial, s.logger)
	if err != nil {
		return nil, connectError{s.describeError(limit, err)}
	}
	s.conn = conn
	return conn, nil
}

// discardConn lets go of a connection that has failed.
func (s *mcpSet) discardConn(conn *mcpConn) {
	s.lock <- struct{}{}
	defer s.releaseLock()
	if s.conn == conn {
		s.conn = nil
	}
	conn.abort()
}

func (s *mcpSet) acquireLock(ctx context.Context) error {
	select {
	case s.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *mcpSet) releaseLock() { <-s.lock }

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

// An mcpSet provides the tools of one server, which are listed in each run. It
// connects on first use, and reconnects after the connection is lost.
type mcpSet struct {
	server       *mcpServer
	capabilities Capabilities
	dial         transportDialer
	redactor     *spec.Redactor
	stderr       *stderrTail
	logger       *slog.Logger

	// lock guards the fields below; a context can cancel waiting for it.
	lock   chan struct{}
	conn   *mcpConn
	tools  map[string]*mcpTool
	closed bool
}

// newSet returns the set without connecting.
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

// Dynamic reports that the tools are unknown before a run lists them.
func (s *mcpSet) Dynamic() bool { return true }

// Tools lists the tools that the server has now.
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

// Close closes the connection, and stops the server program.
func (s *mcpSet) Close() error {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	s.closed = true
	s.conn.close()
	s.conn = nil
	return nil
}

// selectTools returns the listed tools that pass tool_filter.
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
			s.logger.Warn("mcp tool skipped", "server", s.server.displayName(), "tool", t.Name, "error", err)
			continue
		}
		tools = append(tools, made)
	}
	if len(tools) == 0 && len(s.server.offer.ToolFilter) > 0 {
		return nil, fmt.Errorf("%s has none of the tools in tool_filter; its tools are: %s", s.server.displayName(), strings.Join(names, ", "))
	}
	return tools, nil
}

// reuseTool returns the tool for an entry of the list, reusing an unchanged
// one: compiling its schema is expensive.
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

// withSession runs a request on the connection. If the connection turns out to
// be lost, it reconnects and retries once, provided that the server cannot have
// received the request or that repeating it is safe.
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

// A disconnectedError reports that the connection closed during a request.
type disconnectedError struct {
	error
	safeToRetry bool
}

// acquireConn returns the open connection, or connects.
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

// discardConn closes a connection that has failed.
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

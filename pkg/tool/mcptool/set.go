package mcptool

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
	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A serverSet provides the tools of one server, which are listed in each run. It
// connects on first use, and reconnects after the connection is lost.
type serverSet struct {
	server       *server
	capabilities tool.Capabilities
	dial         transportDialer
	redactor     *spec.Redactor
	stderr       *stderrTail
	logger       *slog.Logger
	progress     progressHub

	// lock guards the fields below; a context can cancel waiting for it.
	lock   chan struct{}
	conn   *connection
	tools  map[string]*serverTool
	closed bool
}

// newSet returns the set without connecting.
func (s *server) newSet(env tool.Env) (tool.Set, error) {
	confirm, err := tool.CompileConfirm(s.offer.Confirm, anyArgsDeclaration("mcp"))
	if err != nil {
		return nil, err
	}
	words := &stderrTail{}
	set := &serverSet{
		server: s, dial: s.newDialer(env, words), stderr: words, redactor: spec.NewRedactor(tool.SecretsOf(s.headers, s.env)...), logger: env.Logger,
		capabilities: tool.Capabilities{Timeout: s.callTimeout, FailOnError: s.offer.OnError == "fail", Confirm: confirm},
		lock:         make(chan struct{}, 1), tools: map[string]*serverTool{},
	}
	s.offer.Async.SetCapabilities(&set.capabilities)
	if env.Offline {
		return offlineSet{set}, nil
	}
	return set, nil
}

// Dynamic reports that the tools are unknown before a run lists them.
func (s *serverSet) Dynamic() bool { return true }

// Tools lists the tools that the server has now.
func (s *serverSet) Tools(ctx context.Context) ([]tool.Tool, error) {
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
func (s *serverSet) Close() error {
	s.lock <- struct{}{}
	defer func() { <-s.lock }()
	s.closed = true
	s.conn.close()
	s.conn = nil
	return nil
}

// selectTools returns the listed tools that pass tool_filter.
func (s *serverSet) selectTools(ctx context.Context, listed []*mcp.Tool) ([]tool.Tool, error) {
	if err := s.acquireLock(ctx); err != nil {
		return nil, err
	}
	defer s.releaseLock()
	var tools []tool.Tool
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
func (s *serverSet) reuseTool(listed *mcp.Tool) (*serverTool, error) {
	raw, err := json.Marshal(listed)
	if err != nil {
		return nil, err
	}
	if known := s.tools[listed.Name]; known != nil && known.source == string(raw) {
		return known, nil
	}
	schema, _ := listed.InputSchema.(map[string]any)
	d, err := tool.NewDeclared(s.server.prefixedName(listed.Name), listed.Description, schema)
	if err != nil {
		return nil, err
	}
	t := &serverTool{Declared: d, set: s, name: listed.Name, source: string(raw)}
	if a := listed.Annotations; a != nil {
		t.idempotent = a.ReadOnlyHint || a.IdempotentHint
	}
	s.tools[listed.Name] = t
	return t, nil
}

func (s *server) prefixedName(name string) string {
	if s.offer.ToolNamePrefix == "" {
		return name
	}
	return s.offer.ToolNamePrefix + "_" + name
}

// withSession runs a request on the connection. If the connection turns out to
// be lost, it reconnects and retries once, provided that the server cannot have
// received the request or that repeating it is safe.
func (s *serverSet) withSession(ctx context.Context, repeatable bool, question func(*mcp.ClientSession) error) error {
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
func (s *serverSet) acquireConn(ctx context.Context) (*connection, error) {
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
	conn, err := connect(limit, s.dial, &s.progress, s.logger)
	if err != nil {
		return nil, connectError{s.describeError(limit, err)}
	}
	s.conn = conn
	return conn, nil
}

// discardConn closes a connection that has failed.
func (s *serverSet) discardConn(conn *connection) {
	s.lock <- struct{}{}
	defer s.releaseLock()
	if s.conn == conn {
		s.conn = nil
	}
	conn.abort()
}

func (s *serverSet) acquireLock(ctx context.Context) error {
	select {
	case s.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *serverSet) releaseLock() { <-s.lock }

// An offlineSet connects to no server: it has the tools that the document
// names, which accept any arguments.
type offlineSet struct{ *serverSet }

// Tools returns the tools of tool_filter.
func (s offlineSet) Tools(context.Context) ([]tool.Tool, error) {
	var tools []tool.Tool
	for _, name := range s.server.offer.ToolFilter {
		decl := anyArgsDeclaration(s.server.prefixedName(name))
		tools = append(tools, offlineTool{decl, s.serverSet})
	}
	if len(tools) == 0 {
		return nil, fmt.Errorf("%s is not called in tests: list its tools in tool_filter, and set their responses under tools", s.server.displayName())
	}
	return tools, nil
}

// anyArgsDeclaration declares a tool with unknown parameters.
func anyArgsDeclaration(name string) *genai.FunctionDeclaration {
	schema := map[string]any{"type": "object", "properties": map[string]any{}, "additionalProperties": true}
	return &genai.FunctionDeclaration{Name: name, Description: "A tool of an MCP server.", ParametersJsonSchema: schema}
}

type offlineTool struct {
	decl *genai.FunctionDeclaration
	set  *serverSet
}

// Declaration implements [Tool].
func (t offlineTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Capabilities returns the settings of the document.
func (t offlineTool) Capabilities() tool.Capabilities { return t.set.capabilities }

// Run fails: tests must define the response of the tool.
func (t offlineTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, &tool.EndError{Err: fmt.Errorf("tests call no mcp server: set the response of the tool with tools: {%s: {return: {…}}}", t.decl.Name)}
}

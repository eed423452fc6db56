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
	server *mcpServer
	traits Capabilities
	dial   dialer
	hide   *spec.Veil
	words  *lastWords
	logger *slog.Logger

	// turn is held by whoever looks at what follows; waiting for it can be given up.
	turn   chan struct{}
	conn   *mcpConn
	known  map[string]*mcpTool
	closed bool
}

// set makes the set. It connects to nothing.
func (s *mcpServer) set(env Env) (Set, error) {
	confirm, err := CompileConfirm(s.offer.Confirm, anyArguments("mcp"))
	if err != nil {
		return nil, err
	}
	words := &lastWords{}
	set := &mcpSet{
		server: s, dial: s.dialer(env, words), words: words, hide: hiding(s.headers, s.env), logger: env.Logger,
		traits: Capabilities{Timeout: s.call, FailOnError: s.offer.OnError == "fail", Confirm: confirm},
		turn:   make(chan struct{}, 1), known: map[string]*mcpTool{},
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
	limit, stop := s.bounded(ctx)
	defer stop()
	var listed []*mcp.Tool
	err := s.ask(limit, true, func(session *mcp.ClientSession) error {
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
		return nil, s.told(limit, err)
	}
	return s.offered(ctx, listed)
}

// Close ends the connection, and with it the program that is the server.
func (s *mcpSet) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.closed = true
	s.conn.close()
	s.conn = nil
	return nil
}

// offered are the listed tools that the document wants.
func (s *mcpSet) offered(ctx context.Context, listed []*mcp.Tool) ([]Tool, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	var tools []Tool
	var names []string
	for _, t := range listed {
		names = append(names, t.Name)
		if filter := s.server.offer.ToolFilter; len(filter) > 0 && !slices.Contains(filter, t.Name) {
			continue
		}
		made, err := s.tool(t)
		if err != nil {
			s.logger.Warn("a tool of an mcp server cannot be offered", "server", s.server.name(), "tool", t.Name, "error", err)
			continue
		}
		tools = append(tools, made)
	}
	if len(tools) == 0 && len(s.server.offer.ToolFilter) > 0 {
		return nil, fmt.Errorf("%s has none of the tools that tool_filter names; it has: %s", s.server.name(), strings.Join(names, ", "))
	}
	return tools, nil
}

// tool is that of an entry of the list. One that has not changed is the one of
// before: reading its schema takes its time.
func (s *mcpSet) tool(listed *mcp.Tool) (*mcpTool, error) {
	raw, err := json.Marshal(listed)
	if err != nil {
		return nil, err
	}
	if known := s.known[listed.Name]; known != nil && known.listed == string(raw) {
		return known, nil
	}
	d, err := declare(s.server.prefixed(listed.Name), listed.Description, mapOf(listed.InputSchema))
	if err != nil {
		return nil, err
	}
	t := &mcpTool{declared: d, set: s, name: listed.Name, listed: string(raw)}
	if a := listed.Annotations; a != nil {
		t.repeatable = a.ReadOnlyHint || a.IdempotentHint
	}
	s.known[listed.Name] = t
	return t, nil
}

func (s *mcpServer) prefixed(name string) string {
	if s.offer.ToolNamePrefix == "" {
		return name
	}
	return s.offer.ToolNamePrefix + "_" + name
}

// ask puts a question to the server. Where the connection turns out to be dead it
// is made anew, and the question put again if the server cannot have heard it, or
// if hearing it twice does no harm.
func (s *mcpSet) ask(ctx context.Context, repeatable bool, question func(*mcp.ClientSession) error) error {
	for again := false; ; again = true {
		conn, err := s.connected(ctx)
		if err != nil {
			return err
		}
		err = question(conn.session)
		answered := (*jsonrpc.Error)(nil)
		if err == nil || ctx.Err() != nil || errors.As(err, &answered) {
			return err
		}
		s.drop(conn)
		unheard := errors.Is(err, mcp.ErrSessionMissing)
		if again || !repeatable && !unheard {
			return brokenError{err, repeatable || unheard}
		}
	}
}

// A brokenError is that of a connection that ended while somebody waited.
type brokenError struct {
	error
	harmless bool
}

// connected is the connection, which is made if there is none that lives.
func (s *mcpSet) connected(ctx context.Context) (*mcpConn, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.end()
	if s.closed {
		return nil, connectError{fmt.Errorf("%s is closed", s.server.name())}
	}
	if s.conn.lives() {
		return s.conn, nil
	}
	s.conn.close()
	s.conn = nil
	limit, stop := s.bounded(ctx)
	defer stop()
	conn, err := connectMCP(limit, s.dial, s.logger)
	if err != nil {
		return nil, connectError{s.told(limit, err)}
	}
	s.conn = conn
	return conn, nil
}

// drop lets go of a connection that has failed.
func (s *mcpSet) drop(conn *mcpConn) {
	s.turn <- struct{}{}
	defer s.end()
	if s.conn == conn {
		s.conn = nil
	}
	conn.cut()
}

func (s *mcpSet) begin(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *mcpSet) end() { <-s.turn }

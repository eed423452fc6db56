package tool

import (
	"context"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
)

// protocolVersion is the newest version that starts with initialize, which
// every server supports; some servers never respond to any other first request.
const protocolVersion = "2025-11-25"

// A transportDialer creates the transport to a server, which lives as long as
// the context; leave is called after the connection has closed.
type transportDialer func(ctx context.Context) (way mcp.Transport, leave func())

// An mcpConn is a connection to a server. A nil mcpConn is closed.
type mcpConn struct {
	session *mcp.ClientSession
	// cancel aborts the connection; closed is closed once it is fully shut down.
	cancel context.CancelFunc
	closed chan struct{}
}

// connectMCP connects within the deadline of ctx. The connection outlives ctx.
func connectMCP(ctx context.Context, dial transportDialer, logger *slog.Logger) (*mcpConn, error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	inTime := context.AfterFunc(ctx, cancel)
	way, leave := dial(life)
	client := mcp.NewClient(&mcp.Implementation{Name: "agenthost", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(life, way, &mcp.ClientSessionOptions{ProtocolVersion: protocolVersion})
	late := !inTime()
	if err != nil {
		cancel()
		leave()
		return nil, err
	}
	c := &mcpConn{session: session, cancel: cancel, closed: make(chan struct{})}
	go func() {
		defer close(c.closed)
		defer cancel()
		defer safe.Recover(func(p *safe.Panic) { p.Log(logger, "MCP connection panicked") })
		defer leave()
		_ = session.Wait() // the next request reports the error
		_ = session.Close()
	}()
	if late {
		c.abort()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// isAlive reports whether the connection is still open.
func (c *mcpConn) isAlive() bool {
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

// close shuts the connection down gracefully, and waits until it is closed.
func (c *mcpConn) close() {
	if c != nil {
		_ = c.session.Close() // the server may have closed it first
		<-c.closed
	}
}

// abort cancels the connection, and waits until it is closed.
func (c *mcpConn) abort() {
	c.cancel()
	c.close()
}

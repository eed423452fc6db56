package tool

import (
	"context"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
)

// protocolVersion is the newest that begins with the question that every server
// knows; there are servers that leave any other first question without an answer.
const protocolVersion = "2025-11-25"

// A dialer makes the way to a server. It lives as long as the context; leave is
// called after the connection has ended, and may be nil.
type transportDialer func(ctx context.Context) (way mcp.Transport, leave func())

// An mcpConn is a connection to a server. A nil one is dead.
type mcpConn struct {
	session *mcp.ClientSession
	// cancel cuts the connection off, and gone is closed when nothing of it is left.
	cancel context.CancelFunc
	closed chan struct{}
}

// connectMCP makes a connection, within the time of ctx. The connection itself
// outlives ctx.
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
		_ = session.Wait() // how it ended is told to whoever asks next
		_ = session.Close()
	}()
	if late {
		c.abort()
		return nil, context.Cause(ctx)
	}
	return c, nil
}

// isAlive says whether the connection has not ended yet.
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

// close ends the connection in good order, and waits for its end.
func (c *mcpConn) close() {
	if c != nil {
		_ = c.session.Close() // the server may have gone before
		<-c.closed
	}
}

// abort ends the connection at once, and waits for its end.
func (c *mcpConn) abort() {
	c.cancel()
	c.close()
}

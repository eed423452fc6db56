package liveweb

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"agenthost/internal/limit"
	"agenthost/internal/safe"
)

// liveCloseTimeout is how long a client may take to answer a close frame.
const liveCloseTimeout = 10 * time.Second

// A liveConn is the network connection below a live socket. It limits all bytes that a client
// sends: messages, and frames outside them, such as pings and empty fragments, which cost the
// server more than their bytes.
type liveConn struct {
	net.Conn
	limit  *liveLimiter
	closed chan struct{}
	close  func() error
}

func newLiveConn(conn net.Conn, clock func() time.Time) *liveConn {
	c := &liveConn{Conn: conn, limit: &liveLimiter{clock: clock}, closed: make(chan struct{})}
	c.close = sync.OnceValue(func() error {
		close(c.closed)
		return c.Conn.Close()
	})
	return c
}

// Read reads from the connection, and then waits until the client may send again.
func (c *liveConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil || n == 0 {
		return n, err
	}
	return n, c.limit.waitAfter(c.closed, n)
}

// Close closes the connection. It may be called again, concurrently with Read.
func (c *liveConn) Close() error { return c.close() }

// chargeFrame counts a frame with a size that the connection has counted as at least minFrameBytes.
func (c *liveConn) chargeFrame(size int) error {
	return c.limit.waitAfter(c.closed, max(0, minFrameBytes-size))
}

// A liveHijacker gives the WebSocket library the connection with the limits.
type liveHijacker struct {
	http.ResponseWriter
	clock func() time.Time
	conn  *liveConn
}

// Hijack implements [http.Hijacker].
func (h *liveHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.conn = newLiveConn(conn, h.clock)
	return h.conn, buffered, nil
}

// acceptLive upgrades a request to a WebSocket.
func (s *handlers) acceptLive(w http.ResponseWriter, r *http.Request) (*websocket.Conn, *liveConn, error) {
	h := &liveHijacker{ResponseWriter: w, clock: s.Now}
	socket, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		Subprotocols:       []string{liveSubprotocol},
		InsecureSkipVerify: true, // the server has checked the origin
		// A compressed 4 MiB frame could expand to 4 GiB.
		CompressionMode: websocket.CompressionDisabled,
		OnPingReceived:  func(context.Context, []byte) bool { return h.conn.chargeFrame(0) == nil },
		OnPongReceived:  func(context.Context, []byte) { _ = h.conn.chargeFrame(0) }, // the next read has the error
	})
	if err != nil {
		return nil, nil, err
	}
	socket.SetReadLimit(int64(limit.LiveRequest.Bytes))
	return socket, h.conn, nil
}

// closeLive closes a socket with a reason. A client that does not answer, or that sends
// without end, is cut off: the library reads the rest of a frame without a time limit.
func closeLive(socket *websocket.Conn, conn *liveConn, code websocket.StatusCode, reason string) {
	cut := time.AfterFunc(liveCloseTimeout, func() {
		defer safe.Recover(func(*safe.Panic) {}) // closing has no result
		_ = conn.Close()                         // the client is gone
	})
	defer cut.Stop()
	_ = socket.Close(code, truncateText(reason, maxCloseReason)) // the client may be gone
}

package fakegemini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"agenthost/internal/number"
)

// A LiveConn is a connection to the fake Live API, for [Server.HandleLive]'s handler. Receive and
// Send may be called concurrently.
type LiveConn struct {
	// Number counts the server's connections from 1.
	Number int
	// Path is the URL's path, Credential as in [Request], and Setup the first message.
	Path, Credential string
	Setup            map[string]any

	socket *websocket.Conn
	ctx    context.Context

	mu     sync.Mutex
	frames []map[string]any
}

// HandleLive sets the handler for live connections. It runs once for each, in a separate goroutine.
// The connection is cut when it returns. Nil restores [EchoLive].
func (s *Server) HandleLive(handle func(*LiveConn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live.handle = handle
}

// LiveConns returns all connections that sent a setup, in order.
func (s *Server) LiveConns() []*LiveConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*LiveConn(nil), s.live.conns...)
}

// liveState is a server's state for live connections.
type liveState struct {
	handle func(*LiveConn)
	conns  []*LiveConn
}

// isLive reports whether a path is the Live API's, under any prefix.
func isLive(path string) bool {
	return strings.Contains(path, "/ws/google.") &&
		(strings.HasSuffix(path, "BidiGenerateContent") || strings.HasSuffix(path, "BidiGenerateContentConstrained"))
}

func (s *Server) serveLive(w http.ResponseWriter, r *http.Request) {
	credential := credentialOf(r.Header)
	if credential == "" {
		Failure(http.StatusForbidden, "Method doesn't allow unregistered callers.").writeFailure(w)
		return
	}
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // Accept has answered
	}
	defer func() { _ = socket.CloseNow() }() // the handler has closed it, or cuts it
	socket.SetReadLimit(-1)
	c := &LiveConn{Path: r.URL.Path, Credential: credential, socket: socket, ctx: r.Context()}
	first, err := c.Receive()
	setup, ok := first["setup"].(map[string]any)
	if err != nil || !ok {
		c.Close(1007, "Request contains an invalid argument.")
		return
	}
	c.Setup = setup
	s.mu.Lock()
	s.live.conns = append(s.live.conns, c)
	c.Number = len(s.live.conns)
	handle := s.live.handle
	s.mu.Unlock()
	if handle == nil {
		handle = EchoLive
	}
	handle(c)
}

// Receive returns the client's next message, also after it is recorded in [LiveConn.Frames]. It
// returns an error when the connection has ended.
func (c *LiveConn) Receive() (map[string]any, error) {
	_, text, err := c.socket.Read(c.ctx)
	if err != nil {
		return nil, err
	}
	m, err := number.DecodeObject(text)
	if err != nil {
		return nil, fmt.Errorf("malformed message: %w", err)
	}
	c.mu.Lock()
	c.frames = append(c.frames, m)
	c.mu.Unlock()
	return m, nil
}

// Frames returns the client's messages so far, the setup included.
func (c *LiveConn) Frames() []map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]map[string]any(nil), c.frames...)
}

// Accept answers the setup. An empty id is left out, as the Gemini API does.
func (c *LiveConn) Accept(sessionID string) error {
	if sessionID == "" {
		return c.Send(`{"setupComplete":{}}`)
	}
	return c.Send(fmt.Sprintf(`{"setupComplete":{"sessionId":%q}}`, sessionID))
}

// Send sends a message in a binary frame, as the service does.
func (c *LiveConn) Send(text string) error {
	return c.socket.Write(c.ctx, websocket.MessageBinary, []byte(text))
}

// Close closes the connection with a code; 1006 cuts it without a close frame.
func (c *LiveConn) Close(code int, reason string) {
	if code == int(websocket.StatusAbnormalClosure) {
		_ = c.socket.CloseNow() // a cut has no result
		return
	}
	_ = c.socket.Close(websocket.StatusCode(code), reason) // the peer may be gone
}

// EchoLive is the default handler. It answers each text, and each time that speech ends, with a
// spoken turn: transcripts, half a second of audio and turnComplete.
func EchoLive(c *LiveConn) {
	if c.Accept(fmt.Sprintf("live-%d", c.Number)) != nil {
		return
	}
	for {
		m, err := c.Receive()
		if err != nil {
			return
		}
		if text, ok := spokenText(m); ok && c.SendSpokenTurn(text) != nil {
			return
		}
	}
}

// spokenText returns the client's text when its message completes a turn.
func spokenText(m map[string]any) (string, bool) {
	if input, ok := m["realtimeInput"].(map[string]any); ok {
		if text, ok := input["text"].(string); ok {
			return text, true
		}
		_, activity := input["activityEnd"]
		return "speech", activity || input["audioStreamEnd"] == true
	}
	content, ok := m["clientContent"].(map[string]any)
	if !ok || content["turnComplete"] != true {
		return "", false
	}
	turns, _ := content["turns"].([]any)
	if len(turns) == 0 {
		return "", false
	}
	last, _ := turns[len(turns)-1].(map[string]any)
	parts, _ := last["parts"].([]any)
	var text strings.Builder
	for _, p := range parts {
		part, _ := p.(map[string]any)
		chunk, _ := part["text"].(string)
		text.WriteString(chunk)
	}
	return text.String(), true
}

// SendSpokenTurn sends a turn with half a second of silence and its transcript.
func (c *LiveConn) SendSpokenTurn(text string) error {
	audio := strings.Repeat("A", 3200) // 2400 bytes, 50 ms at 24 kHz
	var err error
	for range 10 {
		err = errors.Join(err, c.Send(`{"serverContent":{"modelTurn":{"parts":[{"inlineData":{"mimeType":"audio/pcm;rate=24000","data":"`+audio+`"}}]}}}`))
	}
	transcript, _ := json.Marshal("You sent: " + text)
	return errors.Join(err,
		c.Send(`{"serverContent":{"outputTranscription":{"text":`+string(transcript)+`}}}`),
		c.Send(`{"serverContent":{"generationComplete":true}}`),
		c.Send(`{"serverContent":{"turnComplete":true},"usageMetadata":{"promptTokenCount":10,"responseTokenCount":5,"totalTokenCount":15}}`))
}

// ListenInMemory returns a listener without a port, and what connects to it, for tests with a
// fake clock.
func ListenInMemory() (net.Listener, func(context.Context) (net.Conn, error)) {
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	return l, l.dialContext
}

// NewInMemory starts a server without a port, for tests with a fake clock: its client reaches it
// through memory, whatever the URL's host is.
func NewInMemory() (*Server, *http.Client) {
	s := newServer()
	pipes, connect := ListenInMemory()
	s.StartServerOn(pipes, s.mux)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) }
	return s, &http.Client{Transport: &http.Transport{DialContext: dial, DialTLSContext: dial}}
}

// A pipeListener accepts connections through memory.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) dialContext(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "gemini.test:80" }

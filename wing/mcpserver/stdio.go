package mcpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/limit"
	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// On stdio each line is one message of one client, in either era: the SDK reads the era of each
// request from its _meta. A message that cannot be read is answered with an error, and the next line
// counts. The end of the input, or of the context, starts the shutdown: no message is read anymore,
// questions to the client are answered as canceled, and the server ends once the calls that have
// started are answered, or the grace period has passed, which cancels them.

// Limits on stdio.
const (
	// maxCalls limits the calls in progress.
	maxCalls = 256
	// defaultFlush is the default of StdioOptions.Flush.
	defaultFlush = 2 * time.Second
	// maxErrorLine limits the text that an error repeats from a message.
	maxErrorLine = 200
)

// methodListen has no end: it sends notifications until the client cancels it.
const methodListen = "subscriptions/listen"

// StdioOptions configure [ServeStdio].
type StdioOptions struct {
	Options
	// App is the app's name.
	App string
	// In and Out are the client's.
	In  io.Reader
	Out io.Writer
	// Host has the limits for calls, and the log; nil for the defaults.
	Host *server.Options
	// Drain is how long started calls may continue after the end of the input.
	Drain time.Duration
	// Flush limits how long the last responses may take to write after Drain; the default is 2 seconds.
	Flush time.Duration
	// Reloads receives a value after each reload, so that the client is notified; it may be nil.
	Reloads <-chan struct{}
}

// ServeStdio serves one app to the client on the streams, until the input or ctx ends. The app needs
// no mcp_server in app.yaml.
func ServeStdio(ctx context.Context, host *runtime.Host, opts *StdioOptions) error {
	own := opts.Options
	own.All = true
	srv := server.New(host, opts.Host)
	defer srv.Drain()
	h := newHandlers(srv.Services, &own)
	p := h.findPublished(opts.App)
	if p == nil {
		return fmt.Errorf("app %q not found", opts.App)
	}
	p.connection = uuid.NewString()
	conn := newStdioConn(ctx, opts, h.MaxBody())
	conn.logPanic = func(caught *safe.Panic) { caught.Log(h.Logger(), "MCP on stdio panicked") }
	session, err := p.server.Connect(context.WithoutCancel(ctx), stdioTransport{conn}, nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		defer safe.Recover(func(caught *safe.Panic) { conn.logPanic(caught); ended <- errInternal })
		ended <- session.Wait()
	}()
	for {
		select {
		case <-opts.Reloads:
			h.findPublished(opts.App)
		case err := <-ended:
			return err
		case <-conn.expired:
			select {
			case err := <-ended:
				return err
			case <-time.After(cmp.Or(opts.Flush, defaultFlush)):
				return errors.New("the client does not read its responses")
			}
		}
	}
}

// A stdioTransport hands its connection to the SDK.
type stdioTransport struct{ conn *stdioConn }

// Connect implements [mcp.Transport].
func (t stdioTransport) Connect(context.Context) (mcp.Connection, error) {
	t.conn.startStreams()
	return t.conn, nil
}

// A stdioLine is a line of the input, or the reason why there is none.
type stdioLine struct {
	text []byte
	err  error
}

// A stdioConn is the connection to the client on stdio.
type stdioConn struct {
	ctx      context.Context // its end is like that of the input
	in       *protocol.LineReader
	out      io.Writer
	maxLine  int64
	drain    time.Duration
	logPanic func(*safe.Panic)

	lines chan stdioLine
	// draining is the timer for the grace period, once the input has ended. Only Read uses it.
	draining *time.Timer
	// writing has the messages that wait for the client to read.
	writing chan stdioWrite
	// closed is closed by Close, and expired once reading has ended with calls in progress.
	closed, expired chan struct{}
	closeOnce       sync.Once

	mu sync.Mutex
	// started are the client's calls without a response, and asked the questions to the client.
	started, asked map[jsonrpc.ID]bool
	// changed receives a value when a call or a question has started or ended.
	changed chan struct{}
}

// A stdioWrite is a line to write; the result goes to done.
type stdioWrite struct {
	line []byte
	done chan error
}

func newStdioConn(ctx context.Context, opts *StdioOptions, maxLine int64) *stdioConn {
	return &stdioConn{
		ctx: ctx, in: protocol.NewLineReader(opts.In, maxLine), out: opts.Out, maxLine: maxLine, drain: opts.Drain,
		lines: make(chan stdioLine), writing: make(chan stdioWrite), closed: make(chan struct{}), expired: make(chan struct{}),
		started: map[jsonrpc.ID]bool{}, asked: map[jsonrpc.ID]bool{}, changed: make(chan struct{}, 1),
	}
}

// startStreams starts the goroutines for the two streams. They end with the connection, or with the call
// of a stream that blocks.
func (c *stdioConn) startStreams() {
	go func() {
		defer safe.Recover(c.logPanic)
		for {
			text, err := c.in.ReadLine()
			select {
			case c.lines <- stdioLine{text, err}:
			case <-c.closed:
				return
			}
			if err != nil && !errors.Is(err, protocol.ErrLongLine) {
				return
			}
		}
	}()
	go func() {
		defer safe.Recover(c.logPanic)
		for {
			select {
			case w := <-c.writing:
				_, err := c.out.Write(w.line)
				w.done <- err
			case <-c.closed:
				return
			}
		}
	}()
}

// SessionID implements [mcp.Connection].
func (c *stdioConn) SessionID() string { return "" }

// Close implements [mcp.Connection].
func (c *stdioConn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return nil
}

// Read implements [mcp.Connection].
func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for c.draining == nil {
		select {
		case line := <-c.lines:
			if errors.Is(line.err, protocol.ErrLongLine) {
				if err := c.rejectLine(ctx, jsonrpc.CodeInvalidRequest, fmt.Sprintf("message exceeds the limit of %d bytes", c.maxLine)); err != nil {
					return nil, err
				}
				continue
			}
			if line.err != nil {
				return c.drainCalls(ctx)
			}
			if m, err := c.decodeLine(ctx, line.text); m != nil || err != nil {
				return m, err
			}
		case <-c.ctx.Done():
			return c.drainCalls(ctx)
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.drainCalls(ctx)
}

// decodeLine returns a line's message; nil for one that was rejected.
func (c *stdioConn) decodeLine(ctx context.Context, text []byte) (jsonrpc.Message, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] == '[' {
		return nil, c.rejectLine(ctx, jsonrpc.CodeInvalidRequest, "batches are not supported: send one message in each line")
	}
	if err := limit.RequestBody.CheckValues(text); err != nil {
		return nil, c.rejectLine(ctx, jsonrpc.CodeInvalidRequest, protocol.TruncateText(err.Error(), maxErrorLine))
	}
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, c.rejectLine(ctx, jsonrpc.CodeParseError, protocol.TruncateText("message is not valid JSON-RPC: "+err.Error(), maxErrorLine))
	}
	if request, _ := m.(*jsonrpc.Request); !c.recordMessage(m) {
		refused := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("calls in progress exceed the limit of %d", maxCalls)}
		return nil, c.writeMessage(ctx, &jsonrpc.Response{ID: request.ID, Error: refused})
	}
	return m, nil
}

// recordMessage records which call or question a message starts or ends. It returns false for a call
// too many.
func (c *stdioConn) recordMessage(m jsonrpc.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := m.(type) {
	case *jsonrpc.Response:
		delete(c.asked, m.ID)
	case *jsonrpc.Request:
		if !m.IsCall() || m.Method == methodListen {
			return true
		}
		if len(c.started) >= maxCalls {
			return false
		}
		c.started[m.ID] = true
	}
	return true
}

// rejectLine answers a line that is not a message.
func (c *stdioConn) rejectLine(ctx context.Context, code int, reason string) error {
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": reason}})
	if err != nil {
		return err
	}
	return c.writeLine(ctx, line)
}

// drainCalls waits for the calls that have started, and answers the questions to the client, which
// no longer answers.
func (c *stdioConn) drainCalls(ctx context.Context) (jsonrpc.Message, error) {
	if c.draining == nil {
		c.draining = time.NewTimer(c.drain)
	}
	for {
		id, hasQuestion, isIdle := c.nextQuestion()
		if hasQuestion {
			gone := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client has left"}
			return &jsonrpc.Response{ID: id, Error: gone}, nil
		}
		if isIdle {
			return nil, io.EOF
		}
		select {
		case <-c.changed:
		case <-c.draining.C:
			close(c.expired)
			return nil, io.EOF
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// nextQuestion removes and returns a question without an answer, if there is one. The connection is
// idle if no call is in progress.
func (c *stdioConn) nextQuestion() (id jsonrpc.ID, hasQuestion, isIdle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id = range c.asked {
		hasQuestion = true
		break
	}
	delete(c.asked, id)
	return id, hasQuestion, len(c.started) == 0
}

// Write implements [mcp.Connection].
func (c *stdioConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if request, ok := m.(*jsonrpc.Request); ok && request.IsCall() {
		c.mu.Lock()
		c.asked[request.ID] = true
		c.mu.Unlock()
	}
	err := c.writeMessage(ctx, m)
	if response, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.started, response.ID)
		c.mu.Unlock()
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return err
}

func (c *stdioConn) writeMessage(ctx context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.writeLine(ctx, line)
}

// writeLine writes a line whole. A client that does not read blocks the caller until the connection
// is closed.
func (c *stdioConn) writeLine(ctx context.Context, line []byte) error {
	w := stdioWrite{append(line, '\n'), make(chan error, 1)}
	select {
	case c.writing <- w:
	case <-c.closed:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-c.closed:
		return io.ErrClosedPipe
	}
}

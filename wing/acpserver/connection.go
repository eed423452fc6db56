package acpserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
)

// A connection reads and writes lines. One goroutine reads and begins each request in its order, one
// writes, and each request has its own. A client that does not read blocks those that write to it, and
// in the end the reader.
//
// The end of the input, or of the context, starts the shutdown: questions to the client end without an
// answer, and the connection ends once the requests that have started are answered, or the grace
// period has passed, which cancels them.

// Limits on a connection.
const (
	// maxRequests limits the requests in progress.
	maxRequests = 256
	// defaultFlush is the default of Options.Flush.
	defaultFlush = 2 * time.Second
)

// errLeft reports that the client can no longer answer or read.
var errLeft = errors.New("the client has left")

// A connection is the one to the client.
type connection struct {
	agent        *agent
	in           *protocol.LineReader
	out          io.Writer
	maxLine      int64
	drain, flush time.Duration

	// requestCtx is that of all requests.
	requestCtx context.Context
	cancelAll  context.CancelFunc
	// inputEnded is closed by the reader, and closed once nothing can be written anymore.
	inputEnded, closed chan struct{}
	writing            chan lineWrite
	running            sync.WaitGroup

	mu sync.Mutex
	// requests are the client's requests in progress, by ID.
	requests map[string]context.CancelFunc
	// questions are the requests to the client, by ID.
	questions    map[string]chan *message
	lastQuestion int
	// isDraining is set once no request can start, and no question can be answered.
	isDraining bool
}

// A lineWrite is a line to write; the result goes to done.
type lineWrite struct {
	line []byte
	done chan error
}

func newConnection(opts *Options, maxLine int64, a *agent) *connection {
	c := &connection{
		agent: a, in: protocol.NewLineReader(opts.In, maxLine), out: opts.Out, maxLine: maxLine,
		drain: opts.Drain, flush: cmp.Or(opts.Flush, defaultFlush),
		inputEnded: make(chan struct{}), closed: make(chan struct{}), writing: make(chan lineWrite),
		requests: map[string]context.CancelFunc{}, questions: map[string]chan *message{},
	}
	c.requestCtx, c.cancelAll = context.WithCancel(context.Background())
	return c
}

// serveClient serves until the input or ctx ends. stop is called in the latter case, which is a shutdown of
// the program and leaves runs resumable.
func (c *connection) serveClient(ctx context.Context, stop func()) error {
	defer c.cancelAll()
	go func() {
		defer safe.Recover(c.logPanic)
		defer close(c.inputEnded)
		c.readLines()
	}()
	go func() {
		defer safe.Recover(c.logPanic)
		c.writeLines()
	}()
	select {
	case <-c.inputEnded:
	case <-ctx.Done():
		stop()
	}
	return c.awaitRequests()
}

// awaitRequests waits for the requests in progress.
func (c *connection) awaitRequests() error {
	idle := c.closeRequests()
	closeOnce := sync.OnceFunc(func() { close(c.closed) })
	defer closeOnce()
	select {
	case <-idle:
		return nil
	case <-time.After(c.drain):
	}
	c.cancelAll()
	select {
	case <-idle:
		return nil
	case <-time.After(c.flush):
	}
	closeOnce()
	select { // what the runs store last
	case <-idle:
	case <-time.After(c.flush):
	}
	return errors.New("the client does not read its responses")
}

// closeRequests lets no request start anymore, and ends the questions. The channel that it returns is
// closed after the last request.
func (c *connection) closeRequests() (idle chan struct{}) {
	c.mu.Lock()
	c.isDraining = true
	for id, answer := range c.questions {
		close(answer)
		delete(c.questions, id)
	}
	c.mu.Unlock()
	idle = make(chan struct{})
	go func() {
		defer safe.Recover(c.logPanic)
		defer close(idle)
		c.running.Wait()
	}()
	return idle
}

func (c *connection) logPanic(caught *safe.Panic) {
	caught.Log(c.agent.Logger(), "ACP on stdio panicked")
}

// readLines reads until the input ends, or the shutdown begins.
func (c *connection) readLines() {
	for {
		text, err := c.in.ReadLine()
		switch {
		case errors.Is(err, protocol.ErrLongLine):
			c.rejectMessage(nil, newWireError(codeInvalidRequest, "message exceeds the limit of %d bytes", c.maxLine))
		case err != nil:
			return
		}
		if text = bytes.TrimSpace(text); len(text) > 0 && !c.readMessage(text) {
			return
		}
	}
}

// readMessage handles a line. It returns false once the shutdown has begun.
func (c *connection) readMessage(text []byte) bool {
	m, failed := decodeLine(text)
	switch {
	case failed != nil && m == nil:
		c.rejectMessage(nil, failed)
	case failed != nil:
		c.rejectMessage(m.ID, failed)
	case m.Method == nil:
		c.readResponse(m)
	case m.ID == nil:
		c.agent.handleNotification(*m.Method, m.Params)
	default:
		return c.startRequest(m)
	}
	return true
}

// startRequest begins a request, and runs it in its own goroutine.
func (c *connection) startRequest(m *message) bool {
	ctx, cancel := context.WithCancel(c.requestCtx)
	id := string(m.ID)
	c.mu.Lock()
	var failed *wireError
	switch {
	case c.isDraining:
		c.mu.Unlock()
		cancel()
		return false
	case c.requests[id] != nil:
		failed = newWireError(codeInvalidRequest, "a request with the id %s is in progress", protocol.TruncateText(id, maxShown))
	case len(c.requests) >= maxRequests:
		failed = newWireError(codeInvalidRequest, "requests in progress exceed the limit of %d", maxRequests)
	default:
		c.requests[id] = cancel
		c.running.Add(1)
	}
	c.mu.Unlock()
	if failed != nil {
		cancel()
		c.rejectMessage(m.ID, failed)
		return true
	}
	run, err := c.beginRequest(m)
	go func() {
		defer safe.Recover(c.logPanic)
		defer c.running.Done()
		var result any
		if err == nil {
			result, err = c.runJob(ctx, run)
		}
		c.mu.Lock()
		delete(c.requests, id)
		c.mu.Unlock()
		c.sendResponse(ctx, m.ID, result, err)
		cancel()
	}()
	return true
}

var errPanicked = newWireError(codeInternal, "internal error: see the log")

// beginRequest reads a request's params; a panic is an error.
func (c *connection) beginRequest(m *message) (run job, err error) {
	if caught := safe.Call(func() { run, err = c.agent.beginRequest(*m.Method, m.Params) }); caught != nil {
		c.logPanic(caught)
		return nil, errPanicked
	}
	return run, err
}

func (c *connection) runJob(ctx context.Context, run job) (result any, err error) {
	if caught := safe.Call(func() { result, err = run(ctx) }); caught != nil {
		c.logPanic(caught)
		return nil, errPanicked
	}
	return result, err
}

// sendResponse writes a request's response.
func (c *connection) sendResponse(ctx context.Context, id json.RawMessage, result any, err error) {
	var failed *wireError
	if err != nil {
		failed = c.agent.describeError(ctx, err)
	}
	line, err := encodeResponse(id, result, failed)
	if err != nil {
		c.agent.Logger().Error("encoding a response failed", "err", err)
		line, _ = encodeResponse(id, nil, errPanicked)
	}
	_ = c.writeLine(context.Background(), line) // a client that has left reads nothing
}

// rejectMessage answers a message that is not a request to run.
func (c *connection) rejectMessage(id json.RawMessage, failed *wireError) {
	if line, err := encodeResponse(id, nil, failed); err == nil {
		_ = c.writeLine(context.Background(), line) // a client that has left reads nothing
	}
}

// cancelRequest cancels a request in progress.
func (c *connection) cancelRequest(id json.RawMessage) {
	c.mu.Lock()
	cancel := c.requests[string(id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// readResponse hands an answer to its question. One that has an answer already, or that does not exist,
// takes none.
func (c *connection) readResponse(m *message) {
	id := string(m.ID)
	c.mu.Lock()
	answer := c.questions[id]
	delete(c.questions, id)
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// askClient sends a request to the client, and returns its result. If ctx ends, the client is
// notified that no answer is needed. The error is [errLeft], ctx's, or the client's.
func (c *connection) askClient(ctx context.Context, method string, params, result any) error {
	answer := make(chan *message, 1)
	c.mu.Lock()
	if c.isDraining {
		c.mu.Unlock()
		return errLeft
	}
	c.lastQuestion++
	id := c.lastQuestion
	c.questions[strconv.Itoa(id)] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.questions, strconv.Itoa(id))
		c.mu.Unlock()
	}()
	line, err := encodeRequest(id, method, params)
	if err != nil {
		return err
	}
	if err := c.writeLine(ctx, line); err != nil {
		return err
	}
	select {
	case m := <-answer:
		switch {
		case m == nil:
			return errLeft
		case m.Error != nil:
			return fmt.Errorf("the client rejected %s: %s", method, protocol.TruncateText(m.Error.Message, maxShown))
		}
		return decodeValue("result", m.Result, result)
	case <-ctx.Done():
		_ = c.sendNotification(context.Background(), "$/cancel_request", map[string]any{"requestId": id}) // it may have left
		return ctx.Err()
	}
}

// sendNotification sends a notification.
func (c *connection) sendNotification(ctx context.Context, method string, params any) error {
	line, err := encodeRequest(0, method, params)
	if err != nil {
		return err
	}
	return c.writeLine(ctx, line)
}

// writeLine writes a line whole.
func (c *connection) writeLine(ctx context.Context, line []byte) error {
	w := lineWrite{append(bytes.TrimRight(line, "\n"), '\n'), make(chan error, 1)}
	select {
	case c.writing <- w:
	case <-c.closed:
		return errLeft
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-w.done:
		return err
	case <-c.closed:
		return errLeft
	}
}

// writeLines writes until the connection is closed. It ends with the call of a stream that blocks.
func (c *connection) writeLines() {
	for {
		select {
		case w := <-c.writing:
			_, err := c.out.Write(w.line)
			w.done <- err
		case <-c.closed:
			return
		}
	}
}

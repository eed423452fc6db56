package server

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"agenthost/internal/buffers"
	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// The stream makes an agent as fast as its client, and no faster: an event is stored, written and
// flushed before the agent continues. Nothing is queued, so a slow client slows its own run
// (backpressure) and holds one frame in memory, and what a client has seen has happened.
//
//	event    encode into a shared buffer; write under a deadline; flush; remove the deadline
//	last     write, and leave the flush to the end of the response, at most maxFlushDelay later:
//	         no agent waits for it, and one packet carries frame and end
//	idle     one timer for a stream writes a comment after keepAliveInterval, and flushes what
//	         was left
//	client   gone or too slow: the first write error ends the run, unless it is detached
//
// Invariants:
//   - mu orders frames, comments and flushes; a frame is one Write, so that no comment splits it.
//   - The header is sent with the first frame. Before it, an error can still be the response.
//   - writeErr is set once and is final: afterwards nothing is written.
//   - Once stopKeepAlive has returned, no timer writes to the ResponseWriter, which belongs to
//     net/http again when the handler returns.
//   - A deadline is set only around a write: HTTP/2 resets a stream whose deadline passes while
//     it is idle.
//
// A goroutine with a channel for each stream would buffer events while the run continues as if
// they were delivered, and cost memory for thousands of idle streams.

// A Stream writes server-sent events: one data: line for each event, in one write,
// because ADK's clients read an event that arrives in two chunks twice. ADK sends
// nothing else, and public clients parse every line as JSON. A client that asks for
// event IDs also gets an id: line after each complete event, in a block of its own:
// ADK's JavaScript client expects data: first in a block and nothing after it. Comments
// keep proxies from closing an idle connection.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// eventIDs is set if the client asked for event IDs.
	eventIDs bool
	form     session.Form
	// keepAliveInterval is the idle time before a comment; 0 writes none.
	keepAliveInterval time.Duration
	writeTimeout      time.Duration
	logger            *slog.Logger
	// author is the last event's author.
	author string
	// detached is set if the run continues without the client.
	detached bool

	mu sync.Mutex
	// keepAliveTimer fires when a comment or a flush is due. It needs no goroutine:
	// there may be thousands of streams.
	keepAliveTimer *time.Timer
	started        bool
	unflushed      bool  // the last frame is written but not flushed
	ended          bool  // no more comments
	writeErr       error // the first write error
}

// maxFlushDelay limits how long a run's last event is buffered. The end of the response,
// which flushes it, normally follows within microseconds.
const maxFlushDelay = time.Millisecond

// defaultKeepAlive is the keep-alive interval for clients that accept comments.
const defaultKeepAlive = 15 * time.Second

type errorFrame struct {
	Error     any    `json:"error"`
	ErrorCode string `json:"errorCode"`
	Author    string `json:"author,omitempty"`
}

// newStream returns a response's stream. An extended stream sends event IDs and always sends
// comments: its client supports more server-sent event features than ADK sends.
func (s *Services) newStream(w http.ResponseWriter, extended bool) *Stream {
	every := s.opts.KeepAlive
	if extended && every == 0 {
		every = defaultKeepAlive
	}
	return &Stream{w: w, control: http.NewResponseController(w), logger: s.opts.Logger, eventIDs: extended, keepAliveInterval: every, writeTimeout: s.opts.WriteTimeout}
}

// NewStream returns an event stream, which starts with its first event. Idle streams get a
// comment every 15 seconds, or as often as Options.KeepAlive. The type is text/event-stream in UTF-8,
// unless the response has one.
func (s *Services) NewStream(w http.ResponseWriter) *Stream { return s.newStream(w, true) }

// FailStream ends a stream with an error: it returns the error as the response if the stream
// has not started, and otherwise writes it as the last event.
func (s *Services) FailStream(st *Stream, r *http.Request, err error) error {
	if !st.HasStarted() {
		return err
	}
	_ = st.writeFailure(s.logFailure(r, err), "")
	return nil
}

// HasStarted reports whether the response has begun, so that an error can only be its last event.
func (st *Stream) HasStarted() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.started
}

// trackStream counts an open stream. When it ends early, end logs the reason, which the
// client can no longer receive.
func (s *Services) trackStream(r *http.Request, st *Stream, key session.Key) (end func()) {
	counted := s.opts.Metrics.trackStream(st)
	return func() {
		counted()
		if st.writeErr != nil {
			s.opts.Logger.InfoContext(r.Context(), "stream client dropped", "app", key.App, "session", key.ID, "reason", st.dropReason())
		}
	}
}

// StartKeepAlive flushes buffered frames and writes comments until end is called. It
// calls onLost if a write fails.
func (st *Stream) StartKeepAlive(onLost func()) (end func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.keepAliveTimer = time.AfterFunc(max(st.keepAliveInterval, maxFlushDelay), func() {
		defer safe.Recover(func(p *safe.Panic) { // of the ResponseWriter
			st.mu.Lock()
			if st.writeErr == nil {
				st.writeErr = p
			}
			st.mu.Unlock()
			p.Log(st.logger, "stream write panicked")
			onLost()
		})
		if st.flushOrKeepAlive() != nil && !st.detached {
			onLost()
		}
	})
	st.resetTimer(st.keepAliveInterval)
	return st.stopKeepAlive
}

// flushOrKeepAlive flushes a buffered frame or writes a comment.
func (st *Stream) flushOrKeepAlive() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.ended:
		return nil
	case st.unflushed:
		return st.flushFrame()
	case st.keepAliveInterval == 0:
		return nil
	default:
		return st.writeAndFlush([]byte(": keep-alive\n\n"))
	}
}

// writeComment writes a comment to a client that accepts comments. The next event
// reports a write error.
func (st *Stream) writeComment(text string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.keepAliveInterval == 0 || st.ended {
		return
	}
	_ = st.writeAndFlush([]byte(": " + strings.Join(strings.Fields(text), " ") + "\n\n"))
}

// hasFailed reports whether a write failed: the client has disconnected.
func (st *Stream) hasFailed() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.writeErr != nil
}

// stopKeepAlive stops the timer. When it returns, no comment is being written. The end
// of the response flushes a buffered frame.
func (st *Stream) stopKeepAlive() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
	st.keepAliveTimer.Stop()
}

// writeEvent writes an event and flushes it: the agent continues when writeEvent
// returns, so the client receives an event before its effects. Only the last event of a
// run, which is final and after which no agent continues, is flushed with the end of
// the response.
//
// An event with both content and saved artifacts becomes two frames with the same ID,
// unless singleFrame is set: ADK's web client shows either the content or the artifacts of a
// frame.
func (st *Stream) writeEvent(ev *session.Event, singleFrame, last bool) error {
	st.author = ev.Author
	st.setRevision(ev)
	if singleFrame || len(ev.Actions.ArtifactDelta) == 0 || ev.Content == nil || len(ev.Content.Parts) == 0 {
		return st.writeEventFrame(ev, !ev.Partial, last)
	}
	content, artifacts := *ev, *ev
	content.Actions.ArtifactDelta = nil
	artifacts.Content = nil
	if err := st.writeEventFrame(&content, false, false); err != nil {
		return err
	}
	return st.writeEventFrame(&artifacts, true, last)
}

// setRevision sets the revision header from a stream's first event.
func (st *Stream) setRevision(ev *session.Event) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.started {
		setRevisionHeader(st.w, ev)
	}
}

// writeEventFrame writes a frame. The id: line marks a complete event; its partial
// events have the same ID.
func (st *Stream) writeEventFrame(ev *session.Event, complete, last bool) error {
	// Most streams are idle most of the time, so they share buffers.
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	frame, err := st.form.AppendEvent(append((*buffer)[:0], "data: "...), ev)
	if err != nil {
		return err
	}
	if complete && st.eventIDs {
		frame = append(frame, "\n\nid: "...)
		frame = append(frame, ev.ID...)
	}
	*buffer = append(frame, "\n\n"...)
	if last {
		return st.writeLastFrame(*buffer)
	}
	return st.writeFrame(*buffer)
}

// writeFailure writes the error that ended the run, with the last event's author, or the
// given one if there was no event. ADK's clients show a frame under its author's name.
func (st *Stream) writeFailure(f failure, author string) error {
	text, err := EncodeJSON(errorFrame{f.detail, f.code, cmp.Or(st.author, author)})
	if err != nil {
		return err
	}
	return st.writeLastFrame([]byte("data: " + string(text) + "\n\n"))
}

// rootAgentName returns an app's root agent name, or an empty string if the app does not
// exist.
func (s *Services) rootAgentName(app string) string {
	if a := s.host.App(app); a != nil {
		return a.Root().Name()
	}
	return ""
}

// SendJSON writes values in JSON as an event each, and flushes them together. It returns the first
// write error: the client has disconnected or does not read.
func (st *Stream) SendJSON(values ...any) error {
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	for _, v := range values {
		text, err := AppendJSON(append(*buffer, "data: "...), v)
		if err != nil {
			return err
		}
		*buffer = append(text, "\n\n"...)
	}
	return st.writeFrame(*buffer)
}

// SendFrames writes events that the caller has encoded, each as data: with JSON and an empty line. It flushes
// all but the last ones of a run, which leave together with the end of the response, at most a millisecond
// later. Its error is SendJSON's.
func (st *Stream) SendFrames(frames []byte, last bool) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !last {
		return st.writeAndFlush(frames)
	}
	st.unflushed = false // what is buffered leaves with these
	return st.writeUnflushed(frames)
}

// SendText writes data without a line break as an event with a name, which may be empty, and flushes
// it. Its error is SendJSON's.
func (st *Stream) SendText(name string, data []byte) error {
	frame := make([]byte, 0, len(name)+len(data)+len("event: \ndata: \n\n"))
	if name != "" {
		frame = append(append(append(frame, "event: "...), name...), '\n')
	}
	frame = append(append(frame, "data: "...), data...)
	return st.writeFrame(append(frame, "\n\n"...))
}

// start sends the header unless it was already sent.
func (st *Stream) start() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.started {
		return st.writeErr
	}
	return st.writeAndFlush(nil)
}

// writeFrame writes and flushes a frame. After a write error it writes nothing.
func (st *Stream) writeFrame(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.writeAndFlush(frame)
}

// writeLastFrame writes the final frame. The end of the response or the timer flushes
// it.
func (st *Stream) writeLastFrame(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.writeUnflushed(frame)
}

// writeUnflushed is writeLastFrame for callers that hold the lock.
func (st *Stream) writeUnflushed(frame []byte) error {
	st.bufferFrame(frame)
	st.unflushed = true
	st.resetTimer(maxFlushDelay)
	return st.writeErr
}

// writeAndFlush is writeFrame for callers that hold the lock.
func (st *Stream) writeAndFlush(frame []byte) error {
	st.bufferFrame(frame)
	return st.flushFrame()
}

// bufferFrame writes a frame under its own deadline, after flushing a buffered frame.
// The caller holds the lock.
func (st *Stream) bufferFrame(frame []byte) {
	if st.unflushed {
		_ = st.flushFrame()
	}
	if st.writeErr != nil {
		return
	}
	if !st.started {
		st.started = true
		h := st.w.Header()
		if h.Get("Content-Type") == "" {
			h.Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		st.w.WriteHeader(http.StatusOK)
	}
	if st.writeErr = ignoreUnsupported(st.control.SetWriteDeadline(time.Now().Add(st.writeTimeout))); st.writeErr == nil {
		_, st.writeErr = st.w.Write(frame)
	}
}

// flushFrame flushes written frames and removes the deadline: HTTP/2 resets a stream
// when its deadline passes, even if it is idle. The caller holds the lock.
func (st *Stream) flushFrame() error {
	st.unflushed = false
	if st.writeErr == nil {
		st.writeErr = ignoreUnsupported(st.control.Flush())
	}
	if st.writeErr == nil {
		st.writeErr = ignoreUnsupported(st.control.SetWriteDeadline(time.Time{}))
	}
	st.resetTimer(st.keepAliveInterval)
	return st.writeErr
}

// resetTimer schedules the timer after the given idle time; 0 stops it.
func (st *Stream) resetTimer(idle time.Duration) {
	switch {
	case st.keepAliveTimer == nil || st.ended || st.writeErr != nil:
	case idle == 0:
		st.keepAliveTimer.Stop()
	default:
		st.keepAliveTimer.Reset(idle)
	}
}

// dropReason returns why the client was dropped: slow or gone.
func (st *Stream) dropReason() string {
	if errors.Is(st.writeErr, os.ErrDeadlineExceeded) {
		return "slow"
	}
	return "gone"
}

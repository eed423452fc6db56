package server

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// A stream writes server-sent events: a data: line for each event, in one write,
// since ADK's clients read an event that comes in two chunks twice. That is all that
// ADK sends, and public clients parse every line as JSON. A client that asks for event
// ids also gets an id: line after each complete event, in a block of its own: ADK's
// JavaScript client wants data: first in a block and nothing after it. Comments keep
// proxies from closing a silent connection.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	// eventIDs says that the client asked for event ids.
	eventIDs bool
	form     session.Form
	// keepAliveInterval is how long the stream is silent before a comment; 0 writes none.
	keepAliveInterval time.Duration
	writeTimeout      time.Duration
	buffers           *bufferPool
	logger            *slog.Logger
	// author is that of the last event.
	author string
	// detached says that what is told goes on without the client.
	detached bool

	mu sync.Mutex
	// keepAliveTimer is over when a comment is due, or what is held. It has no goroutine:
	// there may be thousands of streams.
	keepAliveTimer *time.Timer
	started        bool
	unflushed      bool  // the last frame is written and not flushed
	ended          bool  // no comments are written any more
	writeErr       error // why the client cannot be reached
}

// maxFlushDelay is how long the last event of a run is held at most: the end of the answer,
// which it is sent off with, comes within microseconds.
const maxFlushDelay = time.Millisecond

// defaultKeepAlive is how long a stream is silent before a client that knows comments
// gets one.
const defaultKeepAlive = 15 * time.Second

// newStream makes the stream of an answer. extended is for clients that know more of
// server-sent events than ADK sends: they get event ids, and comments in any case.
func (s *Server) newStream(w http.ResponseWriter, extended bool) *stream {
	every := s.opts.KeepAlive
	if extended && every == 0 {
		every = defaultKeepAlive
	}
	return &stream{w: w, control: http.NewResponseController(w), logger: s.opts.Logger, eventIDs: extended, keepAliveInterval: every, writeTimeout: s.opts.WriteTimeout, buffers: &s.buffers}
}

// readEventIDsFlag says whether the client asked for event ids: with ?eventIds=true, or
// by resuming a stream.
func readEventIDsFlag(r *http.Request) (bool, error) {
	asked, err := readQueryFlag(r, "eventIds")
	return asked || r.Header.Get("Last-Event-ID") != "", err
}

// startKeepAlive flushes what is held and writes comments until end is called, and calls
// lost when the client does not take one.
func (st *stream) startKeepAlive(lost func()) (end func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.keepAliveTimer = time.AfterFunc(max(st.keepAliveInterval, maxFlushDelay), func() {
		defer safe.Recover(func(p *safe.Panic) {
			st.recordPanic(p)
			lost()
		})
		if st.flushOrKeepAlive() != nil && !st.detached {
			lost()
		}
	})
	st.resetTimer(st.keepAliveInterval)
	return st.stopKeepAlive
}

// flushOrKeepAlive sends off what is held, or else a comment.
func (st *stream) flushOrKeepAlive() error {
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

// stopKeepAlive returns when no comment is being written, and none will be. What is held goes
// with the end of the answer.
func (st *stream) stopKeepAlive() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
	st.keepAliveTimer.Stop()
}

// writeEvent writes an event and flushes it: the agent continues when this returns, so
// everything that it does then, the client can know the reason of. Only the last
// event of a run, which no agent continues after, goes with the end of the answer.
//
// An event that says something and saved artifacts becomes two frames with the same
// id, unless it is to be whole: ADK's web client shows either the content or the
// artifacts of a frame.
func (st *stream) writeEvent(ev *session.Event, whole, last bool) error {
	st.author = ev.Author
	st.setRevision(ev)
	if whole || len(ev.Actions.ArtifactDelta) == 0 || ev.Content == nil || len(ev.Content.Parts) == 0 {
		return st.writeEventFrame(ev, !ev.Partial, last)
	}
	said, saved := *ev, *ev
	said.Actions.ArtifactDelta = nil
	saved.Content = nil
	if err := st.writeEventFrame(&said, false, false); err != nil {
		return err
	}
	return st.writeEventFrame(&saved, true, last)
}

// setRevision names the revision of a stream's first event.
func (st *stream) setRevision(ev *session.Event) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.started {
		setRevisionHeader(st.w, ev)
	}
}

// writeEventFrame writes a frame. The id: line says that the event was seen to its end:
// the pieces before have the same id.
func (st *stream) writeEventFrame(ev *session.Event, ends, last bool) error {
	// Most streams have nothing to say at most times: their frames share memory.
	buffer := st.buffers.get()
	defer st.buffers.put(buffer)
	frame, err := st.form.AppendEvent(append((*buffer)[:0], "data: "...), ev)
	if err != nil {
		return err
	}
	if ends && st.eventIDs {
		frame = append(frame, "\n\nid: "...)
		frame = append(frame, ev.ID...)
	}
	*buffer = append(frame, "\n\n"...)
	if last {
		return st.writeLastFrame(*buffer)
	}
	return st.writeFrame(*buffer)
}

// writeFailure writes what ended the run, with the author of its last event; author is for
// a run without events. ADK's clients show a frame under its author's name.
func (st *stream) writeFailure(f failure, author string) error {
	text, err := encodeJSON(errorFrame{f.detail, f.code, cmp.Or(st.author, author)})
	if err != nil {
		return err
	}
	return st.writeLastFrame([]byte("data: " + string(text) + "\n\n"))
}

// start sends the header, if nothing was sent yet.
func (st *stream) start() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.started {
		return st.writeErr
	}
	return st.writeAndFlush(nil)
}

// writeFrame writes and flushes one frame. Once a client was lost, it is not tried again.
//
// The first frame is written with the header on a goroutine for it alone: what
// net/http does for a header needs a stack twice as large as everything else, and
// that of a stream would stay as large as long as the stream is open. A panic there
// continues here, where net/http contains it.
func (st *stream) writeFrame(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.started {
		return st.writeAndFlush(frame)
	}
	safe.CallApart(func() { _ = st.writeAndFlush(frame) })
	return st.writeErr
}

// writeLastFrame writes a frame that no other follows. The end of the answer flushes it, or
// the timer does.
func (st *stream) writeLastFrame(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.bufferFrame(frame)
	st.unflushed = true
	st.resetTimer(maxFlushDelay)
	return st.writeErr
}

// writeAndFlush is send for who has the lock.
func (st *stream) writeAndFlush(frame []byte) error {
	st.bufferFrame(frame)
	return st.flushFrame()
}

// bufferFrame writes a frame, for who has the lock, under a deadline of its own. What was
// held goes before, by itself.
func (st *stream) bufferFrame(frame []byte) {
	if st.unflushed {
		_ = st.flushFrame()
	}
	if st.writeErr != nil {
		return
	}
	if !st.started {
		st.started = true
		h := st.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		st.w.WriteHeader(http.StatusOK)
	}
	if st.writeErr = ignoreUnsupported(st.control.SetWriteDeadline(time.Now().Add(st.writeTimeout))); st.writeErr == nil {
		_, st.writeErr = st.w.Write(frame)
	}
}

// flushFrame sends off what was put, for who has the lock, and takes the deadline back:
// HTTP/2 resets a stream when its deadline passes, even if nothing is being written.
func (st *stream) flushFrame() error {
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

// resetTimer has the timer come after so long a silence, or not at all after 0.
func (st *stream) resetTimer(silence time.Duration) {
	switch {
	case st.keepAliveTimer == nil || st.ended || st.writeErr != nil:
	case silence == 0:
		st.keepAliveTimer.Stop()
	default:
		st.keepAliveTimer.Reset(silence)
	}
}

// recordPanic gives the client up because of a panic of the ResponseWriter.
func (st *stream) recordPanic(p *safe.Panic) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.writeErr == nil {
		st.writeErr = p
	}
	p.Log(st.logger, "writing to a stream panicked")
}

// dropReason says who is to blame for a client that was lost.
func (st *stream) dropReason() string {
	if errors.Is(st.writeErr, os.ErrDeadlineExceeded) {
		return "slow"
	}
	return "gone"
}

// ignoreUnsupported forgives what a ResponseWriter cannot do.
func ignoreUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

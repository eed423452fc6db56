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
	// ids says that the client asked for event ids.
	ids  bool
	form session.Form
	// every is how long the stream is silent before a comment; 0 writes none.
	every   time.Duration
	patient time.Duration
	frames  *buffers
	logger  *slog.Logger
	// author is that of the last event.
	author string
	// alone says that what is told goes on without the client.
	alone bool

	mu sync.Mutex
	// silence is over when a comment is due, or what is held. It has no goroutine:
	// there may be thousands of streams.
	silence *time.Timer
	begun   bool
	held    bool  // the last frame is written and not flushed
	ended   bool  // no comments are written any more
	lost    error // why the client cannot be reached
}

// soon is how long the last event of a run is held at most: the end of the answer,
// which it is sent off with, comes within microseconds.
const soon = time.Millisecond

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
	return &stream{w: w, control: http.NewResponseController(w), logger: s.opts.Logger, ids: extended, every: every, patient: s.opts.WriteTimeout, frames: &s.buffers}
}

// wantsEventIDs says whether the client asked for event ids: with ?eventIds=true, or
// by resuming a stream.
func wantsEventIDs(r *http.Request) (bool, error) {
	asked, err := queryFlag(r, "eventIds")
	return asked || r.Header.Get("Last-Event-ID") != "", err
}

// keepAlive flushes what is held and writes comments until end is called, and calls
// lost when the client does not take one.
func (st *stream) keepAlive(lost func()) (end func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.silence = time.AfterFunc(max(st.every, soon), func() {
		defer safe.Recover(func(p *safe.Panic) {
			st.lose(p)
			lost()
		})
		if st.speak() != nil && !st.alone {
			lost()
		}
	})
	st.rest(st.every)
	return st.end
}

// speak sends off what is held, or else a comment.
func (st *stream) speak() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.ended:
		return nil
	case st.held:
		return st.flush()
	case st.every == 0:
		return nil
	default:
		return st.write([]byte(": keep-alive\n\n"))
	}
}

// end returns when no comment is being written, and none will be. What is held goes
// with the end of the answer.
func (st *stream) end() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.ended = true
	st.silence.Stop()
}

// event writes an event and flushes it: the agent continues when this returns, so
// everything that it does then, the client can know the reason of. Only the last
// event of a run, which no agent continues after, goes with the end of the answer.
//
// An event that says something and saved artifacts becomes two frames with the same
// id, unless it is to be whole: ADK's web client shows either the content or the
// artifacts of a frame.
func (st *stream) event(ev *session.Event, whole, last bool) error {
	st.author = ev.Author
	st.nameRevision(ev)
	if whole || len(ev.Actions.ArtifactDelta) == 0 || ev.Content == nil || len(ev.Content.Parts) == 0 {
		return st.sendEvent(ev, !ev.Partial, last)
	}
	said, saved := *ev, *ev
	said.Actions.ArtifactDelta = nil
	saved.Content = nil
	if err := st.sendEvent(&said, false, false); err != nil {
		return err
	}
	return st.sendEvent(&saved, true, last)
}

// nameRevision names the revision of a stream's first event.
func (st *stream) nameRevision(ev *session.Event) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !st.begun {
		nameRevision(st.w, ev)
	}
}

// sendEvent writes a frame. The id: line says that the event was seen to its end:
// the pieces before have the same id.
func (st *stream) sendEvent(ev *session.Event, ends, last bool) error {
	// Most streams have nothing to say at most times: their frames share memory.
	buffer := st.frames.take()
	defer st.frames.giveBack(buffer)
	frame, err := st.form.AppendEvent(append((*buffer)[:0], "data: "...), ev)
	if err != nil {
		return err
	}
	if ends && st.ids {
		frame = append(frame, "\n\nid: "...)
		frame = append(frame, ev.ID...)
	}
	*buffer = append(frame, "\n\n"...)
	if last {
		return st.sendLast(*buffer)
	}
	return st.send(*buffer)
}

// fail writes what ended the run, with the author of its last event; author is for
// a run without events. ADK's clients show a frame under its author's name.
func (st *stream) fail(f failure, author string) error {
	text, err := encodeJSON(frameError{f.detail, f.code, cmp.Or(st.author, author)})
	if err != nil {
		return err
	}
	return st.sendLast([]byte("data: " + string(text) + "\n\n"))
}

// begin sends the header, if nothing was sent yet.
func (st *stream) begin() error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.begun {
		return st.lost
	}
	return st.write(nil)
}

// send writes and flushes one frame. Once a client was lost, it is not tried again.
//
// The first frame is written with the header on a goroutine for it alone: what
// net/http does for a header needs a stack twice as large as everything else, and
// that of a stream would stay as large as long as the stream is open. A panic there
// continues here, where net/http contains it.
func (st *stream) send(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.begun {
		return st.write(frame)
	}
	safe.CallApart(func() { _ = st.write(frame) })
	return st.lost
}

// sendLast writes a frame that no other follows. The end of the answer flushes it, or
// the timer does.
func (st *stream) sendLast(frame []byte) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.put(frame)
	st.held = true
	st.rest(soon)
	return st.lost
}

// write is send for who has the lock.
func (st *stream) write(frame []byte) error {
	st.put(frame)
	return st.flush()
}

// put writes a frame, for who has the lock, under a deadline of its own. What was
// held goes before, by itself.
func (st *stream) put(frame []byte) {
	if st.held {
		_ = st.flush()
	}
	if st.lost != nil {
		return
	}
	if !st.begun {
		st.begun = true
		h := st.w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Accel-Buffering", "no")
		st.w.WriteHeader(http.StatusOK)
	}
	if st.lost = possible(st.control.SetWriteDeadline(time.Now().Add(st.patient))); st.lost == nil {
		_, st.lost = st.w.Write(frame)
	}
}

// flush sends off what was put, for who has the lock, and takes the deadline back:
// HTTP/2 resets a stream when its deadline passes, even if nothing is being written.
func (st *stream) flush() error {
	st.held = false
	if st.lost == nil {
		st.lost = possible(st.control.Flush())
	}
	if st.lost == nil {
		st.lost = possible(st.control.SetWriteDeadline(time.Time{}))
	}
	st.rest(st.every)
	return st.lost
}

// rest has the timer come after so long a silence, or not at all after 0.
func (st *stream) rest(silence time.Duration) {
	switch {
	case st.silence == nil || st.ended || st.lost != nil:
	case silence == 0:
		st.silence.Stop()
	default:
		st.silence.Reset(silence)
	}
}

// lose gives the client up because of a panic of the ResponseWriter.
func (st *stream) lose(p *safe.Panic) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.lost == nil {
		st.lost = p
	}
	p.Log(st.logger, "writing to a stream panicked")
}

// lostBy says who is to blame for a client that was lost.
func (st *stream) lostBy() string {
	if errors.Is(st.lost, os.ErrDeadlineExceeded) {
		return "slow"
	}
	return "gone"
}

// possible forgives what a ResponseWriter cannot do.
func possible(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

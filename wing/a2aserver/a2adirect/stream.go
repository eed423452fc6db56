package a2adirect

import (
	"net/http"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/google/uuid"

	"agenthost/internal/buffers"
	"agenthost/pkg/server"
)

// maxFrames limits the bytes that wait for other events.
const maxFrames = 64 << 10

// A Stream writes a call's events. It belongs to one goroutine.
type Stream struct {
	call *Call
	out  *server.Stream
	// frames are the events that Flush sends next, or nil: a stream that waits holds no buffer.
	frames *[]byte
	// Err is the call's error.
	Err error
	// hasLeft is set once the client has disconnected.
	hasLeft bool
}

// NewStream returns a call's stream in a response, which has the SDK's headers.
func (c *Call) NewStream(s *server.Services, w http.ResponseWriter) (st *Stream, out *server.Stream) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Connection", "keep-alive")
	out = s.NewStream(w)
	return &Stream{call: c, out: out}, out
}

// WriteEvent encodes an event, which the next flush sends; false for an error, or if the client has left.
func (s *Stream) WriteEvent(ev a2a.Event, err error) bool {
	if err == nil {
		err = s.addFrame(ev)
	}
	if err != nil {
		s.Err = err
		return false
	}
	if len(*s.frames) > maxFrames {
		s.Flush(false)
	}
	return !s.hasLeft
}

func (s *Stream) addFrame(ev a2a.Event) error {
	if s.frames == nil {
		s.frames = buffers.Take()
	}
	frame := append(append(append(*s.frames, "id: "...), uuid.NewString()...), "\ndata: "...)
	frame, err := s.call.AppendResponse(frame, ev)
	if err != nil {
		return err
	}
	*s.frames = append(frame, "\n\n"...)
	return nil
}

// Flush sends the events that WriteEvent has encoded; last is as in [server.Stream.SendFrames].
func (s *Stream) Flush(last bool) {
	if s.frames == nil {
		return
	}
	if s.out.SendFrames(*s.frames, last) != nil {
		s.hasLeft = true
	}
	buffers.Return(s.frames)
	s.frames = nil
}

// NewErrorWriter returns a response for the SDK's transport, whose event with an error becomes the stream's last.
func (s *Stream) NewErrorWriter() http.ResponseWriter { return &errorWriter{s, http.Header{}} }

type errorWriter struct {
	*Stream
	header http.Header
}

// Header implements [http.ResponseWriter]; the stream has its own.
func (w *errorWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *errorWriter) WriteHeader(int) {}

// Write implements [http.ResponseWriter].
func (w *errorWriter) Write(text []byte) (int, error) {
	if w.frames == nil {
		w.frames = buffers.Take()
	}
	*w.frames = append(*w.frames, text...)
	return len(text), nil
}

// Flush implements [http.Flusher], which the transport requires.
func (w *errorWriter) Flush() {}

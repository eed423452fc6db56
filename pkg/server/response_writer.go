package server

import (
	"net/http"
	"slices"
	"time"
)

// maxChunk is how much of an answer a client has to take in Options.WriteTimeout.
const maxChunk = 64 << 10

// responseWriter remembers the status that was sent, 0 is none yet, and waits neither for
// a body nor for who reads the answer without end. Streams have times of their own
// for each frame.
type responseWriter struct {
	http.ResponseWriter
	control      http.ResponseController
	writeTimeout time.Duration
	status       int
}

// setReadDeadline sets the time for the request's body, also for one that no handler reads:
// net/http reads it then, before it answers. A time that an answer before left on
// the connection ends.
func (a *responseWriter) setReadDeadline(r *http.Request, patience time.Duration) {
	_ = a.control.SetWriteDeadline(time.Time{})
	if r.Body != nil && r.Body != http.NoBody {
		_ = a.control.SetReadDeadline(time.Now().Add(patience))
	}
}

// extendWriteDeadline gives the client its time for what is written next, anew.
func (a *responseWriter) extendWriteDeadline() {
	_ = a.control.SetWriteDeadline(time.Now().Add(a.writeTimeout))
}

// WriteHeader sends the status.
func (a *responseWriter) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		a.extendWriteDeadline()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body.
func (a *responseWriter) Write(b []byte) (n int, err error) {
	if a.status == 0 {
		a.status = http.StatusOK
		a.extendWriteDeadline()
	}
	if len(b) <= maxChunk {
		return a.ResponseWriter.Write(b)
	}
	for piece := range slices.Chunk(b, maxChunk) {
		a.extendWriteDeadline()
		more, err := a.ResponseWriter.Write(piece)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Unwrap is for [http.ResponseController].
func (a *responseWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

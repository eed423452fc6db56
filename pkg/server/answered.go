package server

import (
	"net/http"
	"slices"
	"time"
)

// maxPiece is how much of an answer a client has to take in Options.WriteTimeout.
const maxPiece = 64 << 10

// answered remembers the status that was sent, 0 is none yet, and waits neither for
// a body nor for who reads the answer without end. Streams have times of their own
// for each frame.
type answered struct {
	http.ResponseWriter
	control http.ResponseController
	patient time.Duration
	status  int
}

// begin sets the time for the request's body, also for one that no handler reads:
// net/http reads it then, before it answers. A time that an answer before left on
// the connection ends.
func (a *answered) begin(r *http.Request, patience time.Duration) {
	_ = a.control.SetWriteDeadline(time.Time{})
	if r.Body != nil && r.Body != http.NoBody {
		_ = a.control.SetReadDeadline(time.Now().Add(patience))
	}
}

// wait gives the client its time for what is written next, anew.
func (a *answered) wait() { _ = a.control.SetWriteDeadline(time.Now().Add(a.patient)) }

// WriteHeader sends the status.
func (a *answered) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
		a.wait()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write sends a piece of the body.
func (a *answered) Write(b []byte) (n int, err error) {
	if a.status == 0 {
		a.status = http.StatusOK
		a.wait()
	}
	if len(b) <= maxPiece {
		return a.ResponseWriter.Write(b)
	}
	for piece := range slices.Chunk(b, maxPiece) {
		a.wait()
		more, err := a.ResponseWriter.Write(piece)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Unwrap is for [http.ResponseController].
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

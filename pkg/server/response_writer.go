package server

import (
	"net/http"
	"slices"
	"time"
)

// maxChunk is the largest chunk of a response that a client must read within
// Options.WriteTimeout.
const maxChunk = 64 << 10

// responseWriter records the status of a response, 0 if none was sent, and limits how
// long a client may take to send its body and to read the response. Streams set a
// deadline for each frame instead.
type responseWriter struct {
	http.ResponseWriter
	control      http.ResponseController
	writeTimeout time.Duration
	status       int
}

// setReadDeadline limits how long the request body may take, even if no handler reads
// it: net/http then reads it before it responds. It also removes the write deadline of
// the previous response on the connection.
func (w *responseWriter) setReadDeadline(r *http.Request, timeout time.Duration) {
	_ = w.control.SetWriteDeadline(time.Time{})
	if r.Body != nil && r.Body != http.NoBody {
		_ = w.control.SetReadDeadline(time.Now().Add(timeout))
	}
}

func (w *responseWriter) extendWriteDeadline() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.writeTimeout))
}

// WriteHeader sends the status.
func (w *responseWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.extendWriteDeadline()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write sends a part of the body in chunks of at most maxChunk bytes, each with its own
// deadline.
func (w *responseWriter) Write(b []byte) (n int, err error) {
	if w.status == 0 {
		w.status = http.StatusOK
		w.extendWriteDeadline()
	}
	if len(b) <= maxChunk {
		return w.ResponseWriter.Write(b)
	}
	for chunk := range slices.Chunk(b, maxChunk) {
		w.extendWriteDeadline()
		more, err := w.ResponseWriter.Write(chunk)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Unwrap is called by [http.ResponseController].
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package protocol

import (
	"net/http"
	"slices"
	"time"
)

// A FrameWriter is the response of a library's handler that streams. Each write to a client has its own
// deadline, so that a client that does not read ends its own stream only, and an idle stream has none.
type FrameWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// NewFrameWriter returns a writer for a response.
func NewFrameWriter(w http.ResponseWriter) *FrameWriter {
	return &FrameWriter{ResponseWriter: w, control: http.NewResponseController(w)}
}

const (
	// writeTimeout limits how long a client may take to read one chunk.
	writeTimeout = 30 * time.Second
	chunkSize    = 64 << 10
)

// Write sends a frame in chunks.
func (w *FrameWriter) Write(b []byte) (n int, err error) {
	for chunk := range slices.Chunk(b, chunkSize) {
		_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
		more, err := w.ResponseWriter.Write(chunk)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Flush sends what was written; the next write reports an error.
func (w *FrameWriter) Flush() { _ = w.FlushError() }

// FlushError is called by [http.ResponseController].
func (w *FrameWriter) FlushError() error {
	_ = w.control.SetWriteDeadline(time.Now().Add(writeTimeout))
	err := w.control.Flush()
	_ = w.control.SetWriteDeadline(time.Time{})
	return err
}

// Unwrap is called by [http.ResponseController].
func (w *FrameWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

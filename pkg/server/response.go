package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"agenthost/internal/buffers"
	"agenthost/pkg/session"
)

type detailBody struct {
	Detail any `json:"detail"`
}

// internalDetail is the detail for errors whose cause is only logged.
const internalDetail = "internal error"

// EncodeJSON encodes a value without escaping HTML.
func EncodeJSON(v any) ([]byte, error) { return AppendJSON(nil, v) }

// AppendJSON appends a value in the form of [EncodeJSON]. After an error it returns dst unchanged.
func AppendJSON(dst []byte, v any) ([]byte, error) {
	a := appenders.Get().(*jsonAppender)
	a.dst = dst
	err := a.enc.Encode(v)
	text := a.dst
	a.dst = nil
	appenders.Put(a)
	if err != nil {
		return dst, err
	}
	return bytes.TrimSuffix(text, []byte("\n")), nil
}

// A jsonAppender appends what its encoder writes.
type jsonAppender struct {
	dst []byte
	enc *json.Encoder
}

// Write implements [io.Writer].
func (a *jsonAppender) Write(text []byte) (int, error) {
	a.dst = append(a.dst, text...)
	return len(text), nil
}

var appenders = sync.Pool{New: func() any {
	a := &jsonAppender{}
	a.enc = json.NewEncoder(a)
	a.enc.SetEscapeHTML(false)
	return a
}}

// WriteJSON responds with 200 and a value in JSON. Encoding errors come before the response.
func WriteJSON(w http.ResponseWriter, v any) (err error) {
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	if *buffer, err = AppendJSON(*buffer, v); err != nil {
		return err
	}
	WriteRawJSON(w, http.StatusOK, *buffer)
	return nil
}

// WriteRawJSON sends encoded JSON. It ignores write errors, because the client has
// disconnected.
func WriteRawJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

func writeDetail(w http.ResponseWriter, status int, detail any) {
	text, err := EncodeJSON(detailBody{detail})
	if err != nil {
		text = []byte(`{"detail":"` + internalDetail + `"}`)
	}
	WriteRawJSON(w, status, text)
}

// writeStatus responds with 200 if ok, otherwise with the given status.
func writeStatus(w http.ResponseWriter, ok bool, otherwise int, v any) error {
	text, err := EncodeJSON(v)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !ok {
		status = otherwise
	}
	WriteRawJSON(w, status, text)
	return nil
}

// revisionHeader names the app revision that served a run.
const revisionHeader = "X-Agenthost-Revision"

// setRevisionHeader sets the header to the revision that created an event. Call it
// before the response starts.
func setRevisionHeader(w http.ResponseWriter, ev *session.Event) {
	if revision := ev.Provenance.Revision; revision != "" && !ev.Provenance.Unverified {
		w.Header().Set(revisionHeader, revision)
	}
}

// maxChunk is the largest chunk of a response that a client must read within
// Options.WriteTimeout.
const maxChunk = 64 << 10

// responseWriter records a response's status, 0 if none was sent, and limits how long a
// client may take to send its body and to read the response. Streams set a deadline for each
// frame instead.
type responseWriter struct {
	http.ResponseWriter
	control      http.ResponseController
	writeTimeout time.Duration
	status       int
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

// Write sends a part of the body in chunks up to maxChunk bytes, each with its own deadline.
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

// ignoreUnsupported ignores operations that a ResponseWriter does not support.
func ignoreUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

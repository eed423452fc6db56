package server

import (
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
)

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rw := &responseWriter{ResponseWriter: w, control: *http.NewResponseController(w), writeTimeout: s.opts.WriteTimeout}
	rw.setReadDeadline(r, s.opts.ReadTimeout)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// A request that also has Content-Length may be request smuggling, so the
		// connection must be closed (RFC 9112, 6.1). net/http has already removed the
		// header, so every chunked HTTP/1.1 request closes its connection.
		rw.Header().Set("Connection", "close")
	}
	h, pattern := s.mux.Handler(r)
	defer s.recordRequest(rw, r, pattern, s.opts.Clock())
	defer s.recoverPanic(rw, r)
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	if reason := s.rejectReason(r, pattern); reason != "" {
		rw.Header().Set("Content-Type", "text/plain")
		rw.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(rw, reason)
		return
	}
	if pattern == "" {
		s.serveUnrouted(rw, r)
		return
	}
	if strings.Contains(pattern, "{") {
		h = s.mux // the mux sets the path values
	}
	h.ServeHTTP(rw, withCallerTrace(r))
}

// withCallerTrace continues the caller's trace if the request has a Traceparent header
// (W3C Trace Context).
func withCallerTrace(r *http.Request) *http.Request {
	if r.Header.Get("Traceparent") == "" {
		return r
	}
	return r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
}

// recordRequest counts and logs a completed request.
func (s *Server) recordRequest(rw *responseWriter, r *http.Request, pattern string, began time.Time) {
	took := s.opts.Clock().Sub(began)
	if s.opts.Metrics != nil {
		s.opts.Metrics.observeRequest(pattern, rw.status, took)
	}
	if s.opts.Logger.Enabled(r.Context(), slog.LevelDebug) {
		s.opts.Logger.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "status", rw.status, "took", took)
	}
}

// recoverPanic responds to a request whose handler panicked. It aborts a response that
// has started, so that clients do not take it for complete.
func (s *Server) recoverPanic(rw *responseWriter, r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason != http.ErrAbortHandler {
		s.opts.Logger.ErrorContext(r.Context(), "handler panicked",
			"method", r.Method, "path", r.URL.Path, "reason", reason, "stack", string(debug.Stack()))
	}
	if rw.status != 0 || reason == http.ErrAbortHandler {
		panic(http.ErrAbortHandler)
	}
	writeDetail(rw, http.StatusInternalServerError, internalDetail)
}

// A jsonErrorWriter replaces the text errors of the mux, for unknown paths and methods,
// with JSON. Redirects to the canonical path pass through.
type jsonErrorWriter struct {
	http.ResponseWriter
	replaced bool
}

// WriteHeader sends the status and, for an error, the complete response.
func (w *jsonErrorWriter) WriteHeader(status int) {
	if w.replaced = status >= http.StatusBadRequest; w.replaced {
		writeDetail(w.ResponseWriter, status, http.StatusText(status))
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write discards the text of an error.
func (w *jsonErrorWriter) Write(b []byte) (int, error) {
	if w.replaced {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

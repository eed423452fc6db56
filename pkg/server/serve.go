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

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &responseWriter{ResponseWriter: w, control: *http.NewResponseController(w), writeTimeout: s.opts.WriteTimeout}
	a.setReadDeadline(r, s.opts.ReadTimeout)
	if r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 {
		// Who sends Content-Length too may mean a proxy to see another request in
		// the rest: the connection must not be used again (RFC 9112, 6.1). net/http
		// has deleted that header by now, so that this holds for all such requests.
		a.Header().Set("Connection", "close")
	}
	h, pattern := s.mux.Handler(r)
	defer s.recordRequest(a, r, pattern, s.opts.Clock())
	defer s.recoverPanic(a, r)
	a.Header().Set("X-Content-Type-Options", "nosniff")
	if why := s.rejectReason(r, pattern); why != "" {
		a.Header().Set("Content-Type", "text/plain")
		a.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(a, why)
		return
	}
	if pattern == "" {
		s.serveUnrouted(a, r)
		return
	}
	if strings.Contains(pattern, "{") {
		h = s.mux // which looks once more, and takes the path apart
	}
	h.ServeHTTP(a, withCallerTrace(r))
}

// withCallerTrace has the spans of a run go on with the trace of its caller, which a
// header tells (W3C Trace Context).
func withCallerTrace(r *http.Request) *http.Request {
	if r.Header.Get("Traceparent") == "" {
		return r
	}
	return r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
}

// recordRequest counts a request that is answered, and writes it into the log.
func (s *Server) recordRequest(a *responseWriter, r *http.Request, pattern string, began time.Time) {
	took := s.opts.Clock().Sub(began)
	if s.opts.Metrics != nil {
		s.opts.Metrics.observeRequest(pattern, a.status, took)
	}
	if s.opts.Logger.Enabled(r.Context(), slog.LevelDebug) {
		s.opts.Logger.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "status", a.status, "took", took)
	}
}

// recoverPanic answers for a handler that panicked. An answer that has begun is cut
// off, so that nobody takes a part of it for the whole.
func (s *Server) recoverPanic(a *responseWriter, r *http.Request) {
	reason := recover()
	if reason == nil {
		return
	}
	if reason != http.ErrAbortHandler {
		s.opts.Logger.ErrorContext(r.Context(), "a handler panicked",
			"method", r.Method, "path", r.URL.Path, "reason", reason, "stack", string(debug.Stack()))
	}
	if a.status != 0 || reason == http.ErrAbortHandler {
		panic(http.ErrAbortHandler)
	}
	writeDetail(a, http.StatusInternalServerError, internalDetail)
}

// jsonErrorWriter turns the mux's own texts, for paths and methods that have no
// route, into JSON. Redirects to the clean form of a path pass.
type jsonErrorWriter struct {
	http.ResponseWriter
	replaced bool
}

// WriteHeader sends the status, and for a refusal the whole answer.
func (u *jsonErrorWriter) WriteHeader(status int) {
	if u.replaced = status >= http.StatusBadRequest; u.replaced {
		writeDetail(u.ResponseWriter, status, http.StatusText(status))
		return
	}
	u.ResponseWriter.WriteHeader(status)
}

// Write drops the text of a refusal.
func (u *jsonErrorWriter) Write(b []byte) (int, error) {
	if u.replaced {
		return len(b), nil
	}
	return u.ResponseWriter.Write(b)
}

package server

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
)

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rw := &responseWriter{ResponseWriter: w, control: *http.NewResponseController(w), writeTimeout: s.opts.WriteTimeout}
	_ = rw.control.SetWriteDeadline(time.Time{}) // the connection has that of the previous response
	if r.Body != nil && r.Body != http.NoBody {
		// It also limits net/http, which reads a body that no handler has read before it responds.
		_ = rw.control.SetReadDeadline(time.Now().Add(s.opts.ReadTimeout))
	}
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
	if !s.isPublicRoute(pattern) && !isCanonicalPath(r.URL.Path) {
		// Unauthenticated callers do not learn that the canonical path has a route.
		if _, err := s.Authenticate(r); err != nil {
			s.writeError(rw, r, err)
			return
		}
	}
	if strings.Contains(pattern, "{") {
		h = s.mux // the mux sets the path values
	}
	if r.Header.Get("Traceparent") != "" { // continue the caller's trace (W3C Trace Context)
		r = r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	}
	h.ServeHTTP(rw, r)
}

// recordRequest counts and logs a completed request.
func (s *Server) recordRequest(rw *responseWriter, r *http.Request, pattern string, began time.Time) {
	took := s.opts.Clock().Sub(began)
	if s.opts.Metrics != nil { // requests without a route have an empty pattern
		s.opts.Metrics.requests.get(requestLabels{pattern, rw.status}).observe(took.Seconds())
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
	err, _ := reason.(error)
	aborted := errors.Is(err, http.ErrAbortHandler)
	if !aborted {
		s.opts.Logger.ErrorContext(r.Context(), "handler panicked",
			"method", r.Method, "path", r.URL.Path, "reason", reason, "stack", string(debug.Stack()))
	}
	if rw.status != 0 || aborted {
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

// Write discards an error's text.
func (w *jsonErrorWriter) Write(b []byte) (int, error) {
	if w.replaced {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

// Protect restricts a handler outside the server's routes, such as a profiler, to
// administrators. Without Options.Auth it restricts nothing.
func (s *Server) Protect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.authorizeRequest(r, &mountedRoute{Route: &Route{}}); err != nil {
			s.writeError(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// stripTrailingSlash returns a request's URL without trailing slashes if that path has a
// route, as FastAPI redirects (Starlette's redirect_slashes). The path starts with exactly
// one slash, so that it cannot name another host.
func (s *Server) stripTrailingSlash(r *http.Request) (to *url.URL, pattern string) {
	escaped := r.URL.EscapedPath()
	if !strings.HasSuffix(escaped, "/") {
		return nil, ""
	}
	to, err := url.Parse("/" + strings.Trim(escaped, "/"))
	if err != nil || to.Path == "/" {
		return nil, ""
	}
	to.RawQuery = r.URL.RawQuery
	// Routes with other methods count too: the response is 405, not 404.
	for _, method := range []string{r.Method, "GET", "POST", "PUT", "PATCH", "DELETE"} {
		bare := &http.Request{Method: method, Host: r.Host, URL: &url.URL{Path: to.Path, RawPath: to.RawPath}}
		if _, pattern = s.mux.Handler(bare); pattern != "" {
			return to, pattern
		}
	}
	return nil, ""
}

// isCanonicalPath reports whether the mux serves a path as it is, and does not redirect to
// the path without empty steps, . and ... It ignores the slash at the end.
func isCanonicalPath(given string) bool {
	return strings.HasPrefix(given, "/") && path.Clean(given) == cmp.Or(strings.TrimSuffix(given, "/"), "/")
}

// serveUnrouted responds to a request without a route. Unauthenticated callers do not
// learn whether a similar path exists.
func (s *Server) serveUnrouted(w http.ResponseWriter, r *http.Request) {
	to, pattern := s.stripTrailingSlash(r)
	if to == nil || !s.isPublicRoute(pattern) {
		if _, err := s.Authenticate(r); err != nil {
			s.writeError(w, r, err)
			return
		}
	}
	if to != nil {
		w.Header().Set("Location", to.String())
		w.WriteHeader(http.StatusTemporaryRedirect) // keeps the method and the body
		return
	}
	s.mux.ServeHTTP(&jsonErrorWriter{ResponseWriter: w}, r)
}

// rejectReason returns why a request is rejected, or an empty string. Both rules are those in
// adk-python's cli/api_server.py: they prevent pages on other sites from calling this server
// through a browser.
func (s *Server) rejectReason(r *http.Request, pattern string) string {
	rt := s.routes[pattern]
	isProbe := rt != nil && rt.Access == AccessProbe
	switch {
	case !isProbe && !s.isHostAllowed(r.Host):
		return "Forbidden: host not allowed"
	case !isOriginAllowed(r):
		return "Forbidden: origin not allowed"
	default:
		return ""
	}
}

// isPublicRoute reports whether a route needs no authentication.
func (s *Server) isPublicRoute(pattern string) bool {
	rt := s.routes[pattern]
	return rt != nil && rt.Access.isPublic()
}

// isHostAllowed protects against DNS rebinding.
func (s *Services) isHostAllowed(host string) bool {
	if len(s.opts.AllowedHosts) == 0 {
		return true
	}
	bare := stripPort(host)
	for _, allowed := range s.opts.AllowedHosts {
		if strings.EqualFold(allowed, host) || strings.EqualFold(strings.Trim(allowed, "[]"), bare) {
			return true
		}
	}
	return false
}

func stripPort(host string) string {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		return bare
	}
	return strings.Trim(host, "[]")
}

// isOriginAllowed reports whether a request that changes state comes from a page on this
// server. If the request has an Origin, it must be the server's own and, on a loopback
// address, a loopback name. Without an Origin, Sec-Fetch-Site decides. WebSocket handshakes
// count as changes, because browsers let pages on any site open them and read from them.
func isOriginAllowed(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	if reads && r.Header.Get("Upgrade") == "" {
		return true
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if isServedOnLoopback(r) {
		if u, err := url.Parse(origin); err != nil || !isLoopback(u.Hostname()) {
			return false
		}
	}
	return strings.EqualFold(origin, serverOrigin(r))
}

func isServedOnLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(stripPort(addr.String()))
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// serverOrigin returns the origin that the client used, as reported by a proxy. Pages on
// other sites cannot set these headers.
func serverOrigin(r *http.Request) string {
	if proto, host := parseForwarded(r.Header.Get("Forwarded")); proto != "" && host != "" {
		return proto + "://" + host
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if proto := firstListItem(r.Header.Get("X-Forwarded-Proto")); proto != "" {
		scheme = proto
	}
	host := r.Host
	if h := firstListItem(r.Header.Get("X-Forwarded-Host")); h != "" {
		host = h
	}
	return scheme + "://" + host
}

// parseForwarded parses a Forwarded header's first element (RFC 7239).
func parseForwarded(header string) (proto, host string) {
	for pair := range strings.SplitSeq(firstListItem(header), ";") {
		name, value, _ := strings.Cut(pair, "=")
		value = strings.Trim(strings.TrimSpace(value), `"`)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "proto":
			proto = value
		case "host":
			host = value
		}
	}
	return proto, host
}

func firstListItem(header string) string {
	item, _, _ := strings.Cut(header, ",")
	return strings.TrimSpace(item)
}

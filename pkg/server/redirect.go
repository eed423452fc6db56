package server

import (
	"net/http"
	"net/url"
	"strings"
)

// stripTrailingSlash returns the URL of a request without trailing slashes if that path
// has a route, as FastAPI redirects (Starlette's redirect_slashes). The path starts
// with exactly one slash, so that it cannot name another host.
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
	// Routes of other methods count too: the response is 405, not 404.
	for _, method := range []string{r.Method, "GET", "POST", "PUT", "PATCH", "DELETE"} {
		bare := &http.Request{Method: method, Host: r.Host, URL: &url.URL{Path: to.Path, RawPath: to.RawPath}}
		if _, pattern = s.mux.Handler(bare); pattern != "" {
			return to, pattern
		}
	}
	return nil, ""
}

// serveUnrouted responds to a request without a route. Unauthenticated callers do not
// learn whether a similar path exists.
func (s *Server) serveUnrouted(w http.ResponseWriter, r *http.Request) {
	to, pattern := s.stripTrailingSlash(r)
	if to == nil || !isPublicRoute(pattern) {
		if _, err := s.authenticate(r); err != nil {
			s.writeError(w, r, err)
			return
		}
	}
	if to != nil {
		redirectTo(w, to.String())
		return
	}
	s.mux.ServeHTTP(&jsonErrorWriter{ResponseWriter: w}, r)
}

// redirectTo redirects to another path of this server, with the same method and body.
func redirectTo(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

package server

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"agenthost/pkg/auth"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// What a caller is told is no more than the status says: not whether a user, a
// session or a path is there.
var (
	errUnauthenticated  = errors.New("the caller is not known")
	errPermissionDenied = errors.New("the caller may not do this")
	errAuthUnavailable  = errors.New("who calls cannot be found out")
)

// publicRoutes answer anybody. They say that the process is there, and whether runs
// should be sent to it; the page holds nothing but itself, and asks for a token. The
// OpenAPI document is the same for every server; ADK's clients poll /docs to find out
// whether a server is up.
func publicRoutes() []string {
	return append(probeRoutes(), "GET /{$}", "GET /ui/{file}", "GET /docs", "GET /openapi.json")
}

// isPublicRoute says whether a route answers anybody.
func isPublicRoute(pattern string) bool { return slices.Contains(publicRoutes(), pattern) }

// userRoutes answer every caller that is known; the handlers see to it that it
// names no other user. So do all routes with a {user}, which is compared here. Any
// other route is for administrators, so that a new one is not open by mistake.
func userRoutes() []string {
	return []string{"GET /version", "GET /list-apps", "POST /run", "POST /run_sse"}
}

// authenticate is who asks; nil where nobody is asked who they are.
func (s *Server) authenticate(r *http.Request) (*auth.Principal, error) {
	if s.opts.Auth == nil {
		return nil, nil
	}
	p, err := s.opts.Auth.Authenticate(r.Context(), r.Header.Get("Authorization"))
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		s.opts.Logger.WarnContext(r.Context(), "a caller cannot be known", "error", err)
		return nil, errAuthUnavailable
	case err != nil:
		s.opts.Logger.DebugContext(r.Context(), "a caller is not known", "path", r.URL.Path, "error", err)
		return nil, errUnauthenticated
	}
	return p, nil
}

// authorizeRequest lets a request in whose path matched the pattern, if its caller may.
func (s *Server) authorizeRequest(r *http.Request, pattern string) error {
	if s.opts.Auth == nil || isPublicRoute(pattern) {
		return nil
	}
	p, err := s.authenticate(r)
	if err != nil || p.Admin {
		return err
	}
	own := strings.Contains(pattern, "{user}")
	if !own && !slices.Contains(userRoutes(), pattern) ||
		own && r.PathValue("user") != p.UserID ||
		strings.Contains(pattern, "{app}") && !p.MayUse(r.Context(), r.PathValue("app")) {
		return errPermissionDenied
	}
	return nil
}

// Protect lets only administrators use a handler that is not a route of the server,
// such as a profiler. Without Auth it lets everyone.
func (s *Server) Protect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.authorizeRequest(r, "protected"); err != nil {
			s.writeError(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// resolveUser is the user that a request acts for: the one that it names, if that is the
// caller. A caller need not say who it is.
func (s *Server) resolveUser(r *http.Request, app, user string) (string, error) {
	p, err := s.authenticate(r)
	switch {
	case p == nil:
		return user, err
	case user == "":
		user = p.UserID
	case user != p.UserID && !p.Admin:
		return "", errPermissionDenied
	}
	if !p.MayUse(r.Context(), app) {
		return "", errPermissionDenied
	}
	return user, nil
}

// stateWriter is the party of the caller that writes state. Without authentication
// nobody is an administrator.
func (s *Server) stateWriter(r *http.Request) session.Writer {
	if p, err := s.authenticate(r); err == nil && p != nil && p.Admin {
		return session.WriterAdmin
	}
	return session.WriterClient
}

// authorizeWrites refuses state keys that the caller may not write: those that the
// app's state_schema reserves, and with authentication app: keys, which all users
// read, unless the state_schema opens them.
func (s *Server) authorizeWrites(r *http.Request, name string, deltas ...map[string]any) error {
	app, w := s.host.App(name), s.stateWriter(r)
	for _, delta := range deltas {
		if len(delta) == 0 {
			continue
		}
		if app == nil {
			return appNotFound(name) // nothing says what may be written
		}
		if err := app.CheckWriter(w, delta); err != nil {
			return err
		}
		if s.opts.Auth == nil || w == session.WriterAdmin {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(delta)) {
			if strings.HasPrefix(key, session.AppPrefix) && !isClientWritable(app, key) {
				return forbiddenError(fmt.Sprintf("permission denied: the state key %q is written by agents and administrators only", key))
			}
		}
	}
	return nil
}

// isClientWritable says whether an app lets clients write a key by name.
func isClientWritable(app *runtime.App, key string) bool {
	by, declared := app.Writable(key)
	return declared && by == session.WriterClient
}

// isPrivileged says whether the caller may know what is the host's, not its own.
func (s *Server) isPrivileged(r *http.Request) bool {
	p, err := s.authenticate(r)
	return err == nil && (p == nil || p.Admin)
}

// canUseApp says whether the caller may use an app.
func (s *Server) canUseApp(r *http.Request, app string) bool {
	p, err := s.authenticate(r)
	return err == nil && (p == nil || p.MayUse(r.Context(), app))
}

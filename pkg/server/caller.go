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
	errNotKnown     = errors.New("the caller is not known")
	errNotAllowed   = errors.New("the caller may not do this")
	errCannotBeSeen = errors.New("who calls cannot be found out")
)

// openRoutes answer anybody. They say that the process is there, and whether runs
// should be sent to it; the page holds nothing but itself, and asks for a token. The
// OpenAPI document is the same for every server; ADK's clients poll /docs to find out
// whether a server is up.
func openRoutes() []string {
	return append(probeRoutes(), "GET /{$}", "GET /ui/{file}", "GET /docs", "GET /openapi.json")
}

// isOpen says whether a route answers anybody.
func isOpen(pattern string) bool { return slices.Contains(openRoutes(), pattern) }

// callerRoutes answer every caller that is known; the handlers see to it that it
// names no other user. So do all routes with a {user}, which is compared here. Any
// other route is for administrators, so that a new one is not open by mistake.
func callerRoutes() []string {
	return []string{"GET /version", "GET /list-apps", "POST /run", "POST /run_sse"}
}

// caller is who asks; nil where nobody is asked who they are.
func (s *Server) caller(r *http.Request) (*auth.Principal, error) {
	if s.opts.Auth == nil {
		return nil, nil
	}
	p, err := s.opts.Auth.Authenticate(r.Context(), r.Header.Get("Authorization"))
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		s.opts.Logger.WarnContext(r.Context(), "a caller cannot be known", "error", err)
		return nil, errCannotBeSeen
	case err != nil:
		s.opts.Logger.DebugContext(r.Context(), "a caller is not known", "path", r.URL.Path, "error", err)
		return nil, errNotKnown
	}
	return p, nil
}

// admit lets a request in whose path matched the pattern, if its caller may.
func (s *Server) admit(r *http.Request, pattern string) error {
	if s.opts.Auth == nil || isOpen(pattern) {
		return nil
	}
	p, err := s.caller(r)
	if err != nil || p.Admin {
		return err
	}
	own := strings.Contains(pattern, "{user}")
	if !own && !slices.Contains(callerRoutes(), pattern) ||
		own && r.PathValue("user") != p.UserID ||
		strings.Contains(pattern, "{app}") && !p.MayUse(r.Context(), r.PathValue("app")) {
		return errNotAllowed
	}
	return nil
}

// Protect lets only administrators use a handler that is not a route of the server,
// such as a profiler. Without Auth it lets everyone.
func (s *Server) Protect(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.admit(r, "protected"); err != nil {
			s.fail(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// actAs is the user that a request acts for: the one that it names, if that is the
// caller. A caller need not say who it is.
func (s *Server) actAs(r *http.Request, app, user string) (string, error) {
	p, err := s.caller(r)
	switch {
	case p == nil:
		return user, err
	case user == "":
		user = p.UserID
	case user != p.UserID && !p.Admin:
		return "", errNotAllowed
	}
	if !p.MayUse(r.Context(), app) {
		return "", errNotAllowed
	}
	return user, nil
}

// writer is the party of the caller that writes state. Without authentication
// nobody is an administrator.
func (s *Server) writer(r *http.Request) session.Writer {
	if p, err := s.caller(r); err == nil && p != nil && p.Admin {
		return session.WriterAdmin
	}
	return session.WriterClient
}

// checkWrites refuses state keys that the caller may not write: those that the
// app's state_schema reserves, and with authentication app: keys, which all users
// read, unless the state_schema opens them.
func (s *Server) checkWrites(r *http.Request, name string, deltas ...map[string]any) error {
	app, w := s.host.App(name), s.writer(r)
	for _, delta := range deltas {
		if len(delta) == 0 {
			continue
		}
		if app == nil {
			return errNoApp(name) // nothing says what may be written
		}
		if err := app.CheckWriter(w, delta); err != nil {
			return err
		}
		if s.opts.Auth == nil || w == session.WriterAdmin {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(delta)) {
			if strings.HasPrefix(key, session.AppPrefix) && !isClientKey(app, key) {
				return forbiddenError(fmt.Sprintf("permission denied: the state key %q is written by agents and administrators only", key))
			}
		}
	}
	return nil
}

// isClientKey says whether an app lets clients write a key by name.
func isClientKey(app *runtime.App, key string) bool {
	by, declared := app.Writable(key)
	return declared && by == session.WriterClient
}

// seesAll says whether the caller may know what is the host's, not its own.
func (s *Server) seesAll(r *http.Request) bool {
	p, err := s.caller(r)
	return err == nil && (p == nil || p.Admin)
}

// mayUse says whether the caller may use an app.
func (s *Server) mayUse(r *http.Request, app string) bool {
	p, err := s.caller(r)
	return err == nil && (p == nil || p.MayUse(r.Context(), app))
}

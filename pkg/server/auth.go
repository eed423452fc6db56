package server

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"

	"agenthost/internal/auth"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// An Auth authenticates callers by static tokens or by JWTs.
type Auth = auth.Auth

// ReadAuth reads the authentication of callers from a file, in the --auth format. lookup
// resolves the references in the file, such as kind env or secret; without it, references are
// errors. An error about the content is a [spec.Diagnostics]. The caller closes the Auth.
func ReadAuth(path string, lookup spec.Lookup) (*Auth, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n, ds := spec.Parse(path, text)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	if lookup == nil {
		lookup = func(string, string) (string, error) { return "", spec.ErrUnset }
	}
	if ds := spec.Interpolate(n, lookup); ds.HasErrors() {
		return nil, ds.Err()
	}
	a, ds := auth.Decode(n, nil)
	if ds.HasErrors() {
		a.Close()
		return nil, ds.Err()
	}
	return a, nil
}

// Authenticate returns the caller, or nil if authentication is disabled.
func (s *Services) Authenticate(r *http.Request) (*Principal, error) {
	if s.opts.Auth == nil {
		return nil, nil
	}
	if caller, ok := r.Context().Value(principalKey{}).(*auth.Principal); ok {
		return caller, nil
	}
	p, err := s.opts.Auth.Authenticate(r.Context(), r.Header.Get("Authorization"))
	switch {
	case errors.Is(err, auth.ErrUnavailable):
		s.opts.Logger.WarnContext(r.Context(), "authentication unavailable", "error", err)
		return nil, ErrAuthUnavailable
	case err != nil:
		s.opts.Logger.DebugContext(r.Context(), "authentication failed", "path", r.URL.Path, "error", err)
		return nil, errUnauthenticated
	}
	return p, nil
}

// authorizeRequest checks whether the caller may use a route.
func (s *Services) authorizeRequest(r *http.Request, rt *mountedRoute) error {
	if s.opts.Auth == nil || rt.Access.isPublic() || rt.Access == AccessHandler {
		return nil
	}
	p, err := s.Authenticate(r)
	if err != nil || p.Admin || rt.Access == AccessMetrics && p.Metrics {
		return err
	}
	if !rt.hasUser && rt.Access != AccessUser ||
		rt.hasUser && r.PathValue("user") != p.UserID ||
		rt.hasApp && !p.MayUse(r.Context(), r.PathValue("app")) {
		return ErrPermissionDenied
	}
	return nil
}

// ResolveUser returns the user ID that a request acts as. The request may omit it; if
// present, it must be the caller's, unless the caller is an administrator.
func (s *Services) ResolveUser(r *http.Request, app, user string) (string, error) {
	p, err := s.Authenticate(r)
	switch {
	case p == nil:
		return user, err
	case user == "":
		user = p.UserID
	case user != p.UserID && !p.Admin:
		return "", ErrPermissionDenied
	}
	if !p.MayUse(r.Context(), app) {
		return "", ErrPermissionDenied
	}
	return user, nil
}

// StateWriter returns the role in which the caller writes state. Without authentication
// there are no administrators.
func (s *Services) StateWriter(r *http.Request) session.Writer {
	if p, err := s.Authenticate(r); err == nil && p != nil && p.Admin {
		return session.WriterAdmin
	}
	return session.WriterClient
}

// AuthorizeWrites rejects state keys that the caller may not write: keys reserved by
// the app's state_schema and, with authentication, app: keys, which are shared by all
// users, unless the state_schema allows clients to write them.
func (s *Services) AuthorizeWrites(r *http.Request, name string, deltas ...map[string]any) error {
	app, w := s.host.App(name), s.StateWriter(r)
	for _, delta := range deltas {
		if len(delta) == 0 {
			continue
		}
		if app == nil {
			return appNotFound(name) // no state_schema to check
		}
		if err := app.CheckWriter(w, delta); err != nil {
			return err
		}
		if s.opts.Auth == nil || w == session.WriterAdmin {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(delta)) {
			if !strings.HasPrefix(key, session.AppPrefix) {
				continue
			}
			if by, declared := app.Writable(key); !declared || by != session.WriterClient {
				return forbiddenError(fmt.Sprintf("permission denied: the state key %q is written by agents and administrators only", key))
			}
		}
	}
	return nil
}

// IsPrivileged reports whether the caller may see the host's own data: an administrator, or anyone
// without authentication.
func (s *Services) IsPrivileged(r *http.Request) bool {
	p, err := s.Authenticate(r)
	return err == nil && (p == nil || p.Admin)
}

func (s *Services) canUseApp(r *http.Request, app string) bool {
	p, err := s.Authenticate(r)
	return err == nil && (p == nil || p.MayUse(r.Context(), app))
}

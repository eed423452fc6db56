package server

import (
	"errors"
	"net/http"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"agenthost/pkg/runtime"
)

func (s *Server) handleHealth(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, healthBody{"ok"})
}

func (s *Server) handleVersion(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, versionBody{s.opts.Version, "go", strings.TrimPrefix(goruntime.Version(), "go")})
}

func (s *Server) handleListApps(w http.ResponseWriter, r *http.Request) error {
	detailed, err := readQueryFlag(r, "detailed")
	if err != nil {
		return err
	}
	apps := slices.DeleteFunc(s.host.Apps(), func(a *runtime.App) bool { return !s.canUseApp(r, a.Name) })
	if detailed {
		return writeJSON(w, appsBody{newAppBodies(apps)})
	}
	names := make([]string, len(apps))
	for i, a := range apps {
		names[i] = a.Name
	}
	// The visual builder opens a new app only if the list includes its draft.
	names = append(names, s.drafts.appNames()...)
	slices.Sort(names)
	return writeJSON(w, slices.Compact(names))
}

func readQueryFlag(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, &invalidBodyError{[]errorDetail{{"bool_parsing", []any{"query", name}, "Input should be true or false"}}}
	}
	return on, nil
}

func newAppBodies(apps []*runtime.App) []appBody {
	bodies := make([]appBody, len(apps))
	for i, a := range apps {
		bodies[i] = appBody{Name: a.Name, RootAgentName: a.Root.Name(), Description: a.Description, Language: "yaml"}
	}
	return bodies
}

func (s *Server) handleDiagnostics(w http.ResponseWriter, r *http.Request) error {
	st, ok := s.findStatus(r.PathValue("app"))
	if !ok {
		return appNotFound(r.PathValue("app"))
	}
	return writeJSON(w, st)
}

// findStatus returns the reloader's status of an app. Apps built in Go code are unknown
// to the reloader and have no problems.
func (s *Server) findStatus(app string) (Status, bool) {
	if s.opts.Reloader != nil {
		if st, ok := s.opts.Reloader.Status(app); ok {
			return st, true
		}
	}
	a := s.host.App(app)
	if a == nil {
		return Status{}, false
	}
	return Status{App: a.Name, Revision: a.Revision, OK: true}, true
}

func (s *Server) handlePreview(w http.ResponseWriter, r *http.Request) error {
	b, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	req := &runtime.PreviewRequest{
		App: r.PathValue("app"), Agent: b.readString("agent"), UserID: b.readString("userId"), SessionID: b.readString("sessionId"),
		State: b.readMap("state"), Text: b.readString("text"),
	}
	if err := b.err(); err != nil {
		return err
	}
	p, err := s.host.Preview(r.Context(), req)
	var re *runtime.RunError
	if errors.As(err, &re) && re.Code == runtime.CodeMissingValue {
		// The request contains the state, so a missing value is the client's error.
		return badRequest(re.Message)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, p)
}

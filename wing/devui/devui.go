// Package devui serves ADK's web client, if a build is installed, and the routes that it
// reads: traces, agent graphs, visual builder files, and recorded tests.
package devui

import (
	_ "embed"
	"io/fs"
	"net/http"

	"agenthost/internal/appfolder"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// Options configure the routes. The zero value is valid: it serves graphs only.
type Options struct {
	// UI is a built ADK Web bundle, served at /dev-ui/; nil disables it.
	UI fs.FS
	// Traces are the spans shown to developers; nil shows none.
	Traces *Traces
	// Folders gives developers access to app files; nil gives none.
	Folders appfolder.Folders
	// Dev lets any client that may use the developer routes read and write the files in
	// Folders.
	Dev bool
}

// components are the parameters and schemas for the routes.
//
//go:embed components.yaml
var components []byte

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts   Options
	drafts draftStore
}

// Extend returns an extension for servers; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts}
		// The visual builder opens a new app only if the app list includes its draft.
		return &server.Extension{Routes: h.devUIRoutes(), Components: components, ListApps: h.drafts.appNames, DevUI: opts.UI != nil}
	}
}

// findApp returns the current revision of the app in the path.
func (s *handlers) findApp(r *http.Request) (*runtime.App, error) {
	app := s.Host().App(r.PathValue("app"))
	if app == nil {
		return nil, server.NewError(http.StatusNotFound, "App not found: "+r.PathValue("app"))
	}
	return app, nil
}

func badRequest(detail string) error { return server.NewError(http.StatusBadRequest, detail) }

const (
	rootAgentFile = "root_agent.yaml"
	appFile       = "app.yaml"
)

package why

import (
	_ "embed"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"

	"agenthost/internal/appfolder"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
)

// Options configure the route.
type Options struct {
	// Loader reads revisions; nil disables the route.
	Loader *loader.Loader
	// Folders has the app folders, whose paths a person's editor needs; nil has none.
	Folders appfolder.Folders
	// Rollout describes a revision's place in rollouts; nil does not.
	Rollout RolloutFunc
	// Dev includes the app folder's path in responses to clients on this machine.
	Dev bool
}

// components are the schemas for the route.
//
//go:embed components.yaml
var components []byte

type handlers struct {
	*server.Services
	opts Options
}

// Extend returns an extension for servers; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts}
		return &server.Extension{Components: components, Routes: []server.Route{
			{Method: "GET", Pattern: "…/users/{user}/sessions/{session}/events/{event}/why", Disabled: h.opts.Loader == nil, Handler: h.handleWhy, Doc: server.Doc{Tag: "developer", ID: "explainEvent", Summary: "Explain an event: its agent, instruction and state", Answer: "Explanation"}},
		}}
	}
}

// An answer is an explanation with what a page needs to open its places.
type answer struct {
	*Explanation
	// Serving is the revision that serves; the places may have moved if it differs.
	Serving string `json:"serving,omitempty"`
	// Folder is the app folder's absolute path.
	Folder string `json:"folder,omitempty"`
}

// handleWhy explains an event. It contains instructions and files, so the session's user may not
// read it unless it is an administrator.
func (s *handlers) handleWhy(w http.ResponseWriter, r *http.Request) error {
	if !s.IsPrivileged(r) {
		return server.ErrPermissionDenied
	}
	key := server.PathKey(r)
	x, err := Explain(r.Context(), &Source{Store: s.Host().Store(), Loader: s.opts.Loader, Rollout: s.opts.Rollout}, key, r.PathValue("event"))
	var unknown *EventError
	if errors.As(err, &unknown) || err == nil && x.Event != r.PathValue("event") {
		return server.NewError(http.StatusNotFound, "Event not found: "+r.PathValue("event"))
	}
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	body := answer{Explanation: x, Folder: s.findFolder(r, key.App)}
	if app := s.Host().App(key.App); app != nil {
		body.Serving = app.Revision()
	}
	return s.WriteLarge(w, r, false, func() ([]byte, error) { return json.Marshal(body) })
}

// findFolder returns an app folder's absolute path for a developer's editor. A path reveals names
// that the machine and its users have, and is useless elsewhere: only clients on this machine get
// it, and not through a proxy.
func (s *handlers) findFolder(r *http.Request, app string) string {
	isForwarded := r.Header.Get("Forwarded") != "" || r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Via") != ""
	if !s.opts.Dev || isForwarded || !isLoopback(r.RemoteAddr) || !isLoopback(r.Host) {
		return ""
	}
	root, err := appfolder.Open(s.opts.Folders, app)
	if err != nil {
		return ""
	}
	defer root.Close()
	path, err := filepath.Abs(root.Name())
	if err != nil {
		return ""
	}
	return path
}

// isLoopback reports whether an address, with or without a port, belongs to this machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

package server

import (
	"fmt"
	"net/http"
)

type healthBody struct {
	Status string `json:"status"`
}

type readyBody struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons"`
}

func (s *Services) handleHealth(w http.ResponseWriter, _ *http.Request) error {
	return WriteJSON(w, healthBody{"ok"})
}

// handleLive reports liveness. It checks no dependency.
func (s *Services) handleLive(w http.ResponseWriter, _ *http.Request) error {
	return WriteJSON(w, healthBody{"ok"})
}

// NewProbeHandler returns a handler for an address that only operators reach: GET /metrics, /livez and /readyz as the
// server has them, for all callers and with any Host header. All other paths are 404. Many goroutines may use it.
func (s *Server) NewProbeHandler() http.Handler {
	mux := http.NewServeMux()
	for path, handle := range map[string]Handler{"/livez": s.handleLive, "/readyz": s.handleReady, "/metrics": s.handleMetrics} {
		if path == "/metrics" && s.opts.Metrics == nil {
			continue
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if err := handle(w, r); err != nil {
				s.writeError(w, r, err)
			}
		})
	}
	return mux
}

// handleReady reports readiness. An app with errors in its files adds a reason but does
// not make the server unready: its last good revision stays active. Nor does a folder that
// cannot be read, nor a failing memory service, which all replicas share: turns continue
// without it.
func (s *Services) handleReady(w http.ResponseWriter, r *http.Request) error {
	body := readyBody{Ready: true, Reasons: []string{}}
	addBlocker := func(reason string) { body.Ready, body.Reasons = false, append(body.Reasons, reason) }
	if !s.runs.isOpen() {
		addBlocker("server is shutting down")
	}
	err, memoryErr := s.readiness.checkStore(r.Context()), s.memoryReadiness.checkStore(r.Context())
	artifactErr := s.artifactReadiness.checkStore(r.Context())
	if ctxErr := r.Context().Err(); ctxErr != nil {
		return ctxErr // the client disconnected; the store did not fail
	}
	if err != nil {
		s.opts.Logger.WarnContext(r.Context(), "session store is not writable", "error", err)
		addBlocker("session store is not writable")
	}
	if artifactErr != nil {
		s.opts.Logger.WarnContext(r.Context(), "artifact store is not writable", "error", artifactErr)
		addBlocker("artifact store is not writable")
	}
	if memoryErr != nil {
		s.opts.Logger.WarnContext(r.Context(), "memory service cannot be read", "error", memoryErr)
		body.Reasons = append(body.Reasons, "memory service cannot be read: "+memoryErr.Error())
	}
	if len(s.host.Apps()) == 0 {
		addBlocker("no app is active")
	}
	for _, f := range s.faultyFolders() {
		body.Reasons = append(body.Reasons, f.readinessReasons()...)
	}
	for _, st := range s.reloaderStatuses() {
		body.Reasons = append(body.Reasons, st.readinessReasons()...)
	}
	if !s.IsPrivileged(r) || !s.isHostAllowed(r.Host) {
		body.Reasons = []string{}
	}
	return writeStatus(w, body.Ready, http.StatusServiceUnavailable, body)
}

// readinessReasons describes problems that need attention.
func (f *FolderStatus) readinessReasons() []string {
	var all []string
	if f.Unreadable != "" {
		all = append(all, fmt.Sprintf("folder %s cannot be read: %s", f.Name, f.Unreadable))
	}
	for _, problem := range f.Problems {
		all = append(all, fmt.Sprintf("folder %s: %s", f.Name, problem))
	}
	return all
}

// readinessReasons describes problems that need attention.
func (st *Status) readinessReasons() []string {
	switch {
	case st.Loading:
		return []string{fmt.Sprintf("app %s: files are still loading", st.App)}
	case st.OK:
		return nil
	case st.Unreadable != "" && st.Revision != "":
		return []string{fmt.Sprintf("app %s: its folder cannot be read, revision %s stays active", st.App, st.Revision)}
	case st.Unreadable != "":
		return []string{fmt.Sprintf("app %s: its folder cannot be read, no revision is active", st.App)}
	case st.Held != "":
		return []string{fmt.Sprintf("app %s: revision %s is held, revision %s stays active: %s", st.App, st.Waiting, st.Revision, st.Held)}
	case st.Waiting != "":
		return []string{fmt.Sprintf("app %s: revision %s is waiting for a manual reload, revision %s stays active", st.App, st.Waiting, st.Revision)}
	case st.Revision != "":
		return []string{fmt.Sprintf("app %s: files have errors, revision %s stays active", st.App, st.Revision)}
	default:
		return []string{fmt.Sprintf("app %s: files have errors, no revision is active", st.App)}
	}
}

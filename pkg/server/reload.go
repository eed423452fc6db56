package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// handleLive reports liveness. It checks no dependency.
func (s *Server) handleLive(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, healthBody{"ok"})
}

// handleReady reports readiness. An app with errors in its files adds a reason but does
// not make the server unready: its last good revision stays active.
func (s *Server) handleReady(w http.ResponseWriter, r *http.Request) error {
	body := readyBody{Ready: true, Reasons: []string{}}
	addBlocker := func(reason string) { body.Ready, body.Reasons = false, append(body.Reasons, reason) }
	if !s.runs.isOpen() {
		addBlocker("server is shutting down")
	}
	err := s.readiness.checkStore(r.Context())
	if ctxErr := r.Context().Err(); ctxErr != nil {
		return ctxErr // the client disconnected; the store did not fail
	}
	if err != nil {
		s.opts.Logger.WarnContext(r.Context(), "session store is not writable", "error", err)
		addBlocker("session store is not writable")
	}
	if len(s.host.Apps()) == 0 {
		addBlocker("no app is active")
	}
	for _, st := range s.reloaderStatuses() {
		body.Reasons = append(body.Reasons, st.readinessReasons()...)
	}
	if !s.isPrivileged(r) || !s.isHostAllowed(r.Host) {
		body.Reasons = []string{}
	}
	return writeStatus(w, body.Ready, http.StatusServiceUnavailable, body)
}

// readinessReasons describes problems that need attention.
func (st *Status) readinessReasons() []string {
	switch {
	case st.Loading:
		return []string{fmt.Sprintf("app %s: files are still loading", st.App)}
	case st.OK:
		return nil
	case st.Waiting != "":
		return []string{fmt.Sprintf("app %s: revision %s is waiting for a manual reload, revision %s stays active", st.App, st.Waiting, st.Revision)}
	case st.Revision != "":
		return []string{fmt.Sprintf("app %s: files have errors, revision %s stays active", st.App, st.Revision)}
	default:
		return []string{fmt.Sprintf("app %s: files have errors, no revision is active", st.App)}
	}
}

func (s *Server) handlePrometheus(w http.ResponseWriter, r *http.Request) error {
	s.opts.Metrics.newHandler(s.stateMetrics).ServeHTTP(w, r)
	return nil
}

// handleReload reloads changed files and returns the result of each app. The status is
// 409 if an app has errors, otherwise 202 if an app is still loading.
func (s *Server) handleReload(w http.ResponseWriter, r *http.Request) error {
	before := map[string]Status{}
	for _, st := range s.reloaderStatuses() {
		before[st.App] = st
	}
	if s.opts.Reloader != nil {
		if err := s.opts.Reloader.Reload(r.Context()); err != nil {
			return fmt.Errorf("reloading: %w", err)
		}
	}
	body := reloadBody{Changed: []Status{}, Failed: []Status{}, Removed: []string{}}
	for _, st := range s.reloaderStatuses() {
		old := before[st.App]
		delete(before, st.App)
		switch {
		case st.Loading:
			body.Loading = append(body.Loading, st)
		case !st.OK:
			body.Failed = append(body.Failed, st)
		case st.Revision != old.Revision:
			body.Changed = append(body.Changed, st)
		}
	}
	body.Removed = slices.AppendSeq(body.Removed, maps.Keys(before))
	slices.Sort(body.Removed)
	if len(body.Failed) > 0 {
		return writeStatus(w, false, http.StatusConflict, body)
	}
	return writeStatus(w, len(body.Loading) == 0, http.StatusAccepted, body)
}

// reloaderStatuses returns the statuses of the reloader's apps, sorted by name.
func (s *Server) reloaderStatuses() []Status {
	if s.opts.Reloader == nil {
		return nil
	}
	return s.opts.Reloader.Statuses()
}

// writeStatus responds with 200 if ok, otherwise with the given status.
func writeStatus(w http.ResponseWriter, ok bool, otherwise int, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !ok {
		status = otherwise
	}
	writeRawJSON(w, status, text)
	return nil
}

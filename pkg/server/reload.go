package server

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// handleLive says that the process is there; it asks nobody.
func (s *Server) handleLive(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, healthBody{"ok"})
}

// handleReady says whether runs should be sent here. An app whose files have
// problems is a reason to look, and none to stay away: its last good revision
// serves.
func (s *Server) handleReady(w http.ResponseWriter, r *http.Request) error {
	body := readyBody{Ready: true, Reasons: []string{}}
	hinder := func(reason string) { body.Ready, body.Reasons = false, append(body.Reasons, reason) }
	if !s.runs.isOpen() {
		hinder("the host is about to stop")
	}
	err := s.readiness.checkStore(r.Context())
	if gone := r.Context().Err(); gone != nil {
		return gone // it is the asker who gave up, not the store
	}
	if err != nil {
		s.opts.Logger.WarnContext(r.Context(), "the store cannot write", "error", err)
		hinder("the session store cannot write")
	}
	if len(s.host.Apps()) == 0 {
		hinder("no app serves")
	}
	for _, st := range s.reloaderStatuses() {
		body.Reasons = append(body.Reasons, st.readinessReasons()...)
	}
	if !s.isPrivileged(r) || !s.isHostAllowed(r.Host) {
		body.Reasons = []string{}
	}
	return writeStatus(w, body.Ready, http.StatusServiceUnavailable, body)
}

// readinessReasons are what a person should look at.
func (st *Status) readinessReasons() []string {
	switch {
	case st.Loading:
		return []string{fmt.Sprintf("app %s: its files are still loading", st.App)}
	case st.OK:
		return nil
	case st.Waiting != "":
		return []string{fmt.Sprintf("app %s: revision %s waits to be let in, revision %s serves on", st.App, st.Waiting, st.Revision)}
	case st.Revision != "":
		return []string{fmt.Sprintf("app %s: its files have problems, revision %s serves on", st.App, st.Revision)}
	default:
		return []string{fmt.Sprintf("app %s: its files have problems, and it does not serve", st.App)}
	}
}

func (s *Server) handlePrometheus(w http.ResponseWriter, r *http.Request) error {
	s.opts.Metrics.newHandler(s.stateMetrics).ServeHTTP(w, r)
	return nil
}

// handleReload loads what was changed, and answers with the result of each app:
// 409 when one has problems, else 202 when one is still loading.
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

// reloaderStatuses are those that the reloader knows, sorted by name.
func (s *Server) reloaderStatuses() []Status {
	if s.opts.Reloader == nil {
		return nil
	}
	return s.opts.Reloader.Statuses()
}

// writeStatus answers 200 when all is well, else with the status given.
func writeStatus(w http.ResponseWriter, well bool, otherwise int, v any) error {
	text, err := encodeJSON(v)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !well {
		status = otherwise
	}
	writeRawJSON(w, status, text)
	return nil
}

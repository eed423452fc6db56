package server

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

type reloadBody struct {
	Changed []Status `json:"changed"`
	Failed  []Status `json:"failed"`
	Removed []string `json:"removed"`
	Loading []Status `json:"loading,omitempty"`
	// Held are the apps whose files are held, see [Status].Held.
	Held []Status `json:"held,omitempty"`
	// Folders are the app folders that have problems.
	Folders []FolderStatus `json:"folders,omitempty"`
}

// handleReload reloads changed files and returns each app's result. The status is 409 if an app
// has errors or a folder cannot be read, otherwise 202 if an app is still loading.
func (s *Services) handleReload(w http.ResponseWriter, r *http.Request) error {
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
		case st.Held != "":
			body.Held = append(body.Held, st)
		case !st.OK:
			body.Failed = append(body.Failed, st)
		case st.Revision != old.Revision:
			body.Changed = append(body.Changed, st)
		}
	}
	body.Removed = slices.AppendSeq(body.Removed, maps.Keys(before))
	slices.Sort(body.Removed)
	body.Folders = s.faultyFolders()
	if len(body.Failed) > 0 || slices.ContainsFunc(body.Folders, func(f FolderStatus) bool { return f.Unreadable != "" }) {
		return writeStatus(w, false, http.StatusConflict, body)
	}
	return writeStatus(w, len(body.Loading) == 0, http.StatusAccepted, body)
}

// handleChanges streams the status of all apps: once on connect, then after every
// change. Each event is a complete snapshot, so a client can connect or reconnect at
// any time. The stream ends on shutdown. The number of streams is limited: each holds a
// connection and re-encodes the snapshot on every change.
func (s *Services) handleChanges(w http.ResponseWriter, r *http.Request) error {
	if !s.runs.isOpen() {
		return errShuttingDown
	}
	select {
	case s.changeStreams <- struct{}{}:
		defer func() { <-s.changeStreams }()
	default:
		return NewError(http.StatusServiceUnavailable, fmt.Sprintf("too many open change streams (limit %d), retry later", s.opts.MaxChangeStreams))
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	st := s.newStream(w, true)
	defer st.StartKeepAlive(stop)()
	devUI := slices.ContainsFunc(s.extensions, func(x *Extension) bool { return x.DevUI })
	for lastSent := 0; ; {
		var reports []Report
		var more <-chan struct{} // without a reloader, it never closes
		if s.opts.Reloader != nil {
			reports, more = s.opts.Reloader.Reports(lastSent)
		}
		if len(reports) > 0 {
			lastSent = reports[len(reports)-1].Number
		}
		if st.SendJSON(changesBody{s.opts.Version, devUI, s.listStatuses(), s.faultyFolders(), append([]Report{}, reports...)}) != nil {
			return nil // the client has disconnected
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		case <-s.stopping:
			return nil
		}
	}
}

// changesBody is one event in /-/changes: the status of all apps and the reports since the
// previous event.
type changesBody struct {
	Version string `json:"version"`
	// DevUI reports whether ADK's web client is served.
	DevUI bool     `json:"devUI,omitempty"`
	Apps  []Status `json:"apps"`
	// Folders are the app folders that have problems.
	Folders []FolderStatus `json:"folders,omitempty"`
	Reports []Report       `json:"reports"`
}

// listStatuses returns all apps' statuses sorted by name, including apps built in Go code.
func (s *Services) listStatuses() []Status {
	all := append([]Status{}, s.reloaderStatuses()...)
	for _, a := range s.host.Apps() {
		if !slices.ContainsFunc(all, func(st Status) bool { return st.App == a.Name() }) {
			all = append(all, Status{App: a.Name(), Revision: a.Revision(), OK: true})
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.App, b.App) })
	return all
}

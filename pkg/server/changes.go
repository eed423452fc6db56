package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Report describes the outcome of one change of an app's files.
type Report struct {
	// Number counts the reports of a process, starting at 1.
	Number int       `json:"number"`
	App    string    `json:"app"`
	Time   time.Time `json:"time"`
	// What: loaded, refused, waiting, recovered (the files match the active revision
	// again) or removed.
	What string `json:"what"`
	// From is the revision that was active before, To the one that is active or pending
	// now; empty if there is none.
	From string `json:"from"`
	To   string `json:"to"`
	// Changes lists the fields of agents that differ, Files the files.
	Changes []Difference `json:"changes,omitempty"`
	Files   []string     `json:"files,omitempty"`
}

// A Difference is one difference between two revisions of an app.
type Difference struct {
	// Where is an agent or app.yaml; Field is empty if all of it was added or removed.
	Where string `json:"where"`
	Field string `json:"field,omitempty"`
	// What: added, removed or changed.
	What   string `json:"what"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// changesBody is one event of /-/changes: the status of all apps and the reports since
// the previous event.
type changesBody struct {
	Version string `json:"version"`
	// DevUI reports whether ADK's web client is served.
	DevUI   bool     `json:"devUI,omitempty"`
	Apps    []Status `json:"apps"`
	Reports []Report `json:"reports"`
}

// handleChanges streams the status of all apps: once on connect, then after every
// change. Each event is a complete snapshot, so a client can connect or reconnect at
// any time. The stream ends on shutdown. The number of streams is limited: each holds a
// connection and re-encodes the snapshot on every change.
func (s *Server) handleChanges(w http.ResponseWriter, r *http.Request) error {
	if !s.runs.isOpen() {
		return errShuttingDown
	}
	select {
	case s.changeStreams <- struct{}{}:
		defer func() { <-s.changeStreams }()
	default:
		return fmt.Errorf("%w (limit %d), retry later", errTooManyStreams, s.opts.MaxChangeStreams)
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	st := s.newStream(w, true)
	defer st.startKeepAlive(stop)()
	for lastSent := 0; ; {
		reports, more := s.reportsAfter(lastSent)
		if len(reports) > 0 {
			lastSent = reports[len(reports)-1].Number
		}
		frame, err := encodeJSON(changesBody{s.opts.Version, s.opts.UI != nil, s.listStatuses(), append([]Report{}, reports...)})
		if err != nil {
			return err
		}
		if st.writeFrame([]byte("data: "+string(frame)+"\n\n")) != nil {
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

// reportsAfter returns the reloader's reports. Without a reloader there are none, and
// the channel never closes.
func (s *Server) reportsAfter(after int) ([]Report, <-chan struct{}) {
	if s.opts.Reloader == nil {
		return nil, nil
	}
	return s.opts.Reloader.Reports(after)
}

// listStatuses returns the statuses of all apps sorted by name, including apps built in
// Go code.
func (s *Server) listStatuses() []Status {
	all := append([]Status{}, s.reloaderStatuses()...)
	for _, a := range s.host.Apps() {
		if !slices.ContainsFunc(all, func(st Status) bool { return st.App == a.Name }) {
			all = append(all, Status{App: a.Name, Revision: a.Revision, OK: true})
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.App, b.App) })
	return all
}

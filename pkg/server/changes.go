package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Report tells what came of one change of an app's files.
type Report struct {
	// Number counts the reports of a process, from 1.
	Number int       `json:"number"`
	App    string    `json:"app"`
	Time   time.Time `json:"time"`
	// What is loaded, refused, waiting, mended (the files are again what serves)
	// or removed.
	What string `json:"what"`
	// From is the revision that served before, To the one that serves now or
	// waits; empty where there is none.
	From string `json:"from"`
	To   string `json:"to"`
	// Changes are what agents say otherwise, and Files those that differ.
	Changes []Difference `json:"changes,omitempty"`
	Files   []string     `json:"files,omitempty"`
}

// A Difference is one thing that two revisions of an app say differently.
type Difference struct {
	// Where is an agent or app.yaml; Field is empty when all of it came or went.
	Where string `json:"where"`
	Field string `json:"field,omitempty"`
	// What is added, removed or changed.
	What   string `json:"what"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// changesBody is one frame of /-/changes: how all apps are, and what was told
// since the frame before.
type changesBody struct {
	Version string `json:"version"`
	// DevUI says whether ADK's web client is served too.
	DevUI   bool     `json:"devUI,omitempty"`
	Apps    []Status `json:"apps"`
	Reports []Report `json:"reports"`
}

// handleChanges streams how the apps are: at once, and whenever a change of
// files came to something. Each frame is the whole picture, so that a client
// that comes late, or comes back, needs no other. The stream ends when the host
// is about to stop. Only so many are open at a time: each of them holds a connection,
// and has the whole picture made anew whenever something changes.
func (s *Server) handleChanges(w http.ResponseWriter, r *http.Request) error {
	if !s.runs.isOpen() {
		return errShuttingDown
	}
	select {
	case s.changeStreams <- struct{}{}:
		defer func() { <-s.changeStreams }()
	default:
		return errTooManyStreams
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	st := s.newStream(w, true)
	defer st.startKeepAlive(stop)()
	for told := 0; ; {
		reports, more := s.reportsAfter(told)
		if len(reports) > 0 {
			told = reports[len(reports)-1].Number
		}
		frame, err := encodeJSON(changesBody{s.opts.Version, s.opts.UI != nil, s.listStatuses(), append([]Report{}, reports...)})
		if err != nil {
			return err
		}
		if st.writeFrame([]byte("data: "+string(frame)+"\n\n")) != nil {
			return nil // nobody listens
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

// reportsAfter are those of the reloader; without one there will never be any.
func (s *Server) reportsAfter(after int) ([]Report, <-chan struct{}) {
	if s.opts.Reloader == nil {
		return nil, nil
	}
	return s.opts.Reloader.Reports(after)
}

// listStatuses are the statuses of the reloader's apps and of those that Go code
// built, sorted by name.
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

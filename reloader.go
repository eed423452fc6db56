package agenthost

import (
	"context"

	"agenthost/pkg/loader"
	"agenthost/pkg/server"
)

// reloader gives the server access to app statuses and reloads.
type reloader struct{ watch *loader.Watch }

// Status returns one app's status.
func (s reloader) Status(app string) (server.Status, bool) {
	st, ok := s.watch.Status(app)
	return serverStatus(st), ok
}

// Statuses returns all apps' statuses.
func (s reloader) Statuses() []server.Status {
	var all []server.Status
	for _, st := range s.watch.Statuses() {
		all = append(all, serverStatus(st))
	}
	return all
}

// Folders returns the states of the command line's folders.
func (s reloader) Folders() []server.FolderStatus {
	var all []server.FolderStatus
	for _, f := range s.watch.Folders() {
		all = append(all, server.FolderStatus(f))
	}
	return all
}

// Reload loads changed apps.
func (s reloader) Reload(ctx context.Context) error { return s.watch.Reload(ctx) }

// Reports returns the reload reports after a number.
func (s reloader) Reports(after int) ([]server.Report, <-chan struct{}) {
	reports, more := s.watch.Reports(after)
	var all []server.Report
	for _, r := range reports {
		report := server.Report{Number: r.Number, App: r.App, Time: r.Time, What: r.Kind, From: r.From, To: r.To, Reason: r.Reason, By: r.By, Files: r.Files}
		for _, c := range r.Changes {
			report.Changes = append(report.Changes, server.Difference{Where: c.Where, Field: c.Field, What: c.Kind, Before: c.Before, After: c.After})
		}
		all = append(all, report)
	}
	return all, more
}

func serverStatus(st loader.Status) server.Status {
	return server.Status{
		App: st.App, Revision: st.Revision, OK: st.OK, Waiting: st.PendingRevision, Held: st.Held, Loading: st.Loading, Unreadable: st.Unreadable, Diagnostics: st.Problems(), Loaded: st.Loaded,
		Loads: server.Loads{Last: st.Loaded, Good: st.LastGood, All: st.LoadCount, Failed: st.FailedCount},
	}
}

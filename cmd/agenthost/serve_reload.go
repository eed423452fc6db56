package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
)

// watchReloader gives the server access to the status of apps and to reloads.
type watchReloader struct{ watch *loader.Watch }

// Status returns the status of one app.
func (s watchReloader) Status(app string) (server.Status, bool) {
	st, ok := s.watch.Status(app)
	return serverStatus(st), ok
}

// Statuses returns the status of all apps.
func (s watchReloader) Statuses() []server.Status {
	var all []server.Status
	for _, st := range s.watch.Statuses() {
		all = append(all, serverStatus(st))
	}
	return all
}

// Folders returns the states of the folders of the command line.
func (s watchReloader) Folders() []server.FolderStatus {
	var all []server.FolderStatus
	for _, f := range s.watch.Folders() {
		all = append(all, server.FolderStatus(f))
	}
	return all
}

// Reload loads changed apps.
func (s watchReloader) Reload(ctx context.Context) error { return s.watch.Reload(ctx) }

// Reports returns the reload reports after a number.
func (s watchReloader) Reports(after int) ([]server.Report, <-chan struct{}) {
	reports, more := s.watch.Reports(after)
	var all []server.Report
	for _, r := range reports {
		report := server.Report{Number: r.Number, App: r.App, Time: r.Time, What: r.Kind, From: r.From, To: r.To, Files: r.Files}
		for _, c := range r.Changes {
			report.Changes = append(report.Changes, server.Difference{Where: c.Where, Field: c.Field, What: c.Kind, Before: c.Before, After: c.After})
		}
		all = append(all, report)
	}
	return all, more
}

func serverStatus(st loader.Status) server.Status {
	return server.Status{
		App: st.App, Revision: st.Revision, OK: st.OK, Waiting: st.PendingRevision, Loading: st.Loading, Unreadable: st.Unreadable, Diagnostics: st.Problems(), Loaded: st.Loaded,
		Loads: server.Loads{Last: st.Loaded, Good: st.LastGood, All: st.LoadCount, Failed: st.FailedCount},
	}
}

// reloadOnSignal loads changed apps on each SIGHUP, until ctx ends.
func (m *serveMain) reloadOnSignal(ctx context.Context) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	defer signal.Stop(signals)
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
		}
		m.logger.Info("reloading", "trigger", "SIGHUP")
		err := error(nil)
		if p := safe.Call(func() { err = m.watch.Reload(ctx) }); p != nil {
			p.Log(m.logger, "reload panicked")
		}
		if err != nil && ctx.Err() == nil {
			m.logger.Error("reload failed", "error", err)
		}
		for _, st := range m.watch.Statuses() {
			if st.Loading {
				m.logger.Warn("app still loading", "app", st.App)
			}
		}
	}
}

// buildRevision builds an app from a stored revision. The watch is set before the first
// run.
func (m *serveMain) buildRevision(ctx context.Context, app, revision string) (*runtime.App, error) {
	return m.watch.LoadRevision(ctx, app, revision)
}

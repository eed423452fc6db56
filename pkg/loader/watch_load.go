package loader

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Status returns the status of an app, and whether the app exists.
func (w *Watch) Status(app string) (Status, bool) {
	w.statusMu.RLock()
	defer w.statusMu.RUnlock()
	s, ok := w.status[app]
	return s, ok
}

// Statuses returns the statuses of all apps, sorted by name.
func (w *Watch) Statuses() []Status {
	w.statusMu.RLock()
	defer w.statusMu.RUnlock()
	return slices.SortedFunc(maps.Values(w.status), func(a, b Status) int { return strings.Compare(a.App, b.App) })
}

// Diagnostics returns the problems of an app's folder at its last load.
func (w *Watch) Diagnostics(app string) spec.Diagnostics {
	s, _ := w.Status(app)
	return s.Diagnostics
}

func (w *Watch) hasPendingRevision(app string) bool {
	s, _ := w.Status(app)
	return s.PendingRevision != ""
}

func (w *Watch) deleteStatus(app string) {
	w.statusMu.Lock()
	defer w.statusMu.Unlock()
	delete(w.status, app)
}

// LoadRevision builds an app from the stored files of an earlier revision.
func (w *Watch) LoadRevision(ctx context.Context, app, revision string) (*runtime.App, error) {
	s, ok := w.Status(app)
	if !ok || w.opts.Revisions == nil {
		return nil, fmt.Errorf("app %s: revisions are not stored: %w", app, session.ErrNotFound)
	}
	rev, err := w.opts.Revisions.Get(ctx, app, revision)
	if err != nil {
		return nil, err
	}
	return w.loader.LoadRevision(ctx, rev, s.Dir)
}

// markLoading sets the status Loading of a slow app.
func (w *Watch) markLoading(app, dir string) {
	w.statusMu.Lock()
	defer w.statusMu.Unlock()
	s, ok := w.status[app]
	if !ok && dir == "" {
		return
	}
	s.App, s.Loading = app, true
	if !ok {
		s.Dir = dir
	}
	w.status[app] = s
}

func (w *Watch) unmarkLoading(app string) {
	w.statusMu.Lock()
	defer w.statusMu.Unlock()
	if s, ok := w.status[app]; ok && s.Loading {
		s.Loading = false
		w.status[app] = s
	}
}

// publishResult swaps in a loaded app, or keeps the serving one.
func (w *Watch) publishResult(ctx context.Context, a *watchedApp, got loadResult, p pollMode) {
	old, _ := w.Status(a.name)
	s := Status{App: a.name, Dir: a.dir, Revision: old.Revision, OK: got.app != nil, Diagnostics: got.ds, Loaded: w.opts.Clock()}
	s.LastGood, s.LoadCount, s.FailedCount = old.LastGood, old.LoadCount+1, old.FailedCount
	switch {
	case got.app == nil:
	case got.app.Revision == old.Revision:
		got.app.Close()
	case a.manualReload && !p.requested:
		s.OK, s.PendingRevision = false, got.app.Revision
		got.app.Close()
		w.opts.Logger.Info("app changed; pending manual reload (SIGHUP or POST /-/reload)", "app", a.name, "revision", s.Revision, "waiting", s.PendingRevision)
	default:
		if !w.gateAndSwap(ctx, a, got, &s) {
			return
		}
	}
	if s.OK || s.PendingRevision != "" {
		s.LastGood = s.Loaded
	} else {
		s.FailedCount++
	}
	w.reportMu.Lock()
	defer w.reportMu.Unlock()
	if s.Diagnostics.HasErrors() {
		w.logRejected(a.name, s)
	}
	if err := s.Diagnostics.WriteText(w.opts.Problems); err != nil {
		w.opts.Logger.Warn("cannot write the diagnostics of an app", "app", a.name, "error", err)
	}
	w.statusMu.Lock()
	w.status[a.name] = s
	w.statusMu.Unlock()
	w.opts.OnLoad(s)
	w.recordReport(a, got, old, s)
}

// gateAndSwap passes an app through the gate, stores its revision, since events refer
// to it, and publishes it. If the revision cannot be stored, a later poll retries. It
// returns false if the watch has ended.
func (w *Watch) gateAndSwap(ctx context.Context, a *watchedApp, got loadResult, s *Status) bool {
	s.Diagnostics = append(slices.Clone(got.ds), w.opts.Gate(ctx, a.dir, got.app)...)
	if ctx.Err() == nil && !s.Diagnostics.HasErrors() && w.opts.Revisions != nil {
		kept := &LoadedApp{got.app, got.files}
		if err := kept.SaveRevision(ctx, w.opts.Revisions); err != nil {
			a.loadedHash = ""
			s.Diagnostics = append(s.Diagnostics, spec.Diagnostic{
				Pos: spec.Pos{File: filepath.ToSlash(a.dir)}, Rule: "file", Message: "cannot store the revision, which is required before it serves: " + err.Error(),
			})
		}
	}
	if ctx.Err() != nil {
		got.app.Close()
		return false
	}
	s.Diagnostics.Sort()
	if s.Diagnostics.HasErrors() {
		s.OK = false
		got.app.Close()
		return true
	}
	s.Revision, a.manualReload = got.app.Revision, got.app.Reload.Sessions == runtime.FollowManual
	w.host.Swap(got.app)
	w.opts.Logger.Info("app loaded", "app", s.App, "revision", s.Revision, "warnings", len(s.Diagnostics))
	return true
}

// logRejected logs that a change is rejected, once.
func (w *Watch) logRejected(name string, s Status) {
	if old, ok := w.Status(name); ok && slices.Equal(old.Diagnostics.Strings(), s.Diagnostics.Strings()) {
		return
	}
	what := "app rejected; no revision is serving"
	if s.Revision != "" {
		what = "app rejected; the last good revision keeps serving"
	}
	w.opts.Logger.Error(what, "app", name, "revision", s.Revision, "problems", len(s.Diagnostics))
}

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

// Status returns what is known of an app, and whether there is such an app.
func (w *Watch) Status(app string) (Status, bool) {
	w.statusMu.RLock()
	defer w.statusMu.RUnlock()
	s, ok := w.status[app]
	return s, ok
}

// Statuses returns what is known of every app, sorted by name.
func (w *Watch) Statuses() []Status {
	w.statusMu.RLock()
	defer w.statusMu.RUnlock()
	return slices.SortedFunc(maps.Values(w.status), func(a, b Status) int { return strings.Compare(a.App, b.App) })
}

// Diagnostics returns the problems of an app's folder as it was last loaded.
func (w *Watch) Diagnostics(app string) spec.Diagnostics {
	s, _ := w.Status(app)
	return s.Diagnostics
}

func (w *Watch) waits(app string) bool {
	s, _ := w.Status(app)
	return s.Waiting != ""
}

func (w *Watch) forget(app string) {
	w.statusMu.Lock()
	defer w.statusMu.Unlock()
	delete(w.status, app)
}

// Revive builds an app of a revision that served once, from the files that were
// kept of it.
func (w *Watch) Revive(ctx context.Context, app, revision string) (*runtime.App, error) {
	s, ok := w.Status(app)
	if !ok || w.opts.Revisions == nil {
		return nil, fmt.Errorf("app %s: no revision is kept: %w", app, session.ErrNotFound)
	}
	rev, err := w.opts.Revisions.Get(ctx, app, revision)
	if err != nil {
		return nil, err
	}
	return w.loader.LoadRevision(ctx, rev, s.Dir)
}

// An outcome is what came of loading a folder; loaded is nil when the app has
// problems.
type outcome struct {
	name   string
	loaded *Loaded
	ds     spec.Diagnostics
}

// take swaps a loaded app in, or keeps the one that serves.
func (w *Watch) take(ctx context.Context, a *watched, o outcome, p pass) {
	old, _ := w.Status(o.name)
	s := Status{App: o.name, Dir: a.dir, Revision: old.Revision, OK: o.loaded != nil, Diagnostics: o.ds, Loaded: w.opts.Clock()}
	switch {
	case o.loaded == nil:
		w.refused(o.name, s)
	case o.loaded.App.Revision == old.Revision:
		o.loaded.App.Close()
	case a.manual && !p.letIn:
		s.OK, s.Waiting = false, o.loaded.App.Revision
		o.loaded.App.Close()
		w.opts.Logger.Info("the app has changed, and waits to be let in by SIGHUP or POST /-/reload", "app", o.name, "revision", s.Revision, "waiting", s.Waiting)
	default:
		w.swap(ctx, a, o.loaded, &s)
	}
	if err := o.ds.WriteText(w.opts.Problems); err != nil {
		w.opts.Logger.Warn("cannot print the problems of an app", "app", o.name, "error", err)
	}
	w.statusMu.Lock()
	w.status[o.name] = s
	w.statusMu.Unlock()
}

// swap lets an app serve whose revision is kept: events will name it. One that
// cannot be kept is tried again at a later look.
func (w *Watch) swap(ctx context.Context, a *watched, loaded *Loaded, s *Status) {
	if w.opts.Revisions != nil {
		if err := loaded.Keep(ctx, w.opts.Revisions); err != nil {
			loaded.App.Close()
			a.loaded, s.OK = "", false
			s.Diagnostics = append(slices.Clone(s.Diagnostics), spec.Diagnostic{
				Pos: spec.Pos{File: filepath.ToSlash(a.dir)}, Rule: "file", Message: "the app's revision cannot be kept, and does not serve before it is: " + err.Error(),
			})
			w.refused(s.App, *s)
			return
		}
	}
	s.Revision, a.manual = loaded.App.Revision, loaded.App.Reload.Sessions == runtime.FollowManual
	warnings := len(s.Diagnostics)
	w.host.Swap(loaded.App)
	w.opts.Logger.Info("app loaded", "app", s.App, "revision", s.Revision, "warnings", warnings)
}

// refused tells of problems, unless they were told before.
func (w *Watch) refused(name string, s Status) {
	if old, ok := w.Status(name); ok && slices.Equal(old.Diagnostics.Strings(), s.Diagnostics.Strings()) {
		return
	}
	what := "the app has problems and does not serve"
	if s.Revision != "" {
		what = "the app has problems: the last good revision serves on"
	}
	w.opts.Logger.Error(what, "app", name, "revision", s.Revision, "problems", len(s.Diagnostics))
}

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

// An outcome is what came of loading a folder.
type outcome struct {
	name string
	loaded
}

// take swaps a loaded app in, or keeps the one that serves.
func (w *Watch) take(ctx context.Context, a *watched, o outcome, p pass) {
	old, _ := w.Status(o.name)
	s := Status{App: o.name, Dir: a.dir, Revision: old.Revision, OK: o.app != nil, Diagnostics: o.ds, Loaded: w.opts.Clock()}
	s.Good, s.Loads, s.Failed = old.Good, old.Loads+1, old.Failed
	switch {
	case o.app == nil:
		w.refused(o.name, s)
	case o.app.Revision == old.Revision:
		o.app.Close()
	case a.manual && !p.letIn:
		s.OK, s.Waiting = false, o.app.Revision
		o.app.Close()
		w.opts.Logger.Info("the app has changed, and waits to be let in by SIGHUP or POST /-/reload", "app", o.name, "revision", s.Revision, "waiting", s.Waiting)
	default:
		w.admit(ctx, a, o, &s)
	}
	if s.OK || s.Waiting != "" {
		s.Good = s.Loaded
	} else {
		s.Failed++
	}
	if err := s.Diagnostics.WriteText(w.opts.Problems); err != nil {
		w.opts.Logger.Warn("cannot print the problems of an app", "app", o.name, "error", err)
	}
	w.statusMu.Lock()
	w.status[o.name] = s
	w.statusMu.Unlock()
	w.opts.Told(s)
	w.tell(a, o, old, s)
}

// admit puts an app before the gate, keeps its revision, since events will name
// it, and lets it serve. One that cannot be kept is tried again at a later look.
func (w *Watch) admit(ctx context.Context, a *watched, o outcome, s *Status) {
	s.Diagnostics = append(slices.Clone(o.ds), w.opts.Gate(ctx, a.dir, o.app)...)
	if !s.Diagnostics.HasErrors() && w.opts.Revisions != nil {
		kept := &Loaded{o.app, o.files}
		if err := kept.Keep(ctx, w.opts.Revisions); err != nil {
			a.loaded = ""
			s.Diagnostics = append(s.Diagnostics, spec.Diagnostic{
				Pos: spec.Pos{File: filepath.ToSlash(a.dir)}, Rule: "file", Message: "the app's revision cannot be kept, and does not serve before it is: " + err.Error(),
			})
		}
	}
	s.Diagnostics.Sort()
	if s.Diagnostics.HasErrors() {
		s.OK = false
		o.app.Close()
		w.refused(s.App, *s)
		return
	}
	s.Revision, a.manual = o.app.Revision, o.app.Reload.Sessions == runtime.FollowManual
	w.host.Swap(o.app)
	w.opts.Logger.Info("app loaded", "app", s.App, "revision", s.Revision, "warnings", len(s.Diagnostics))
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

package loader

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"agenthost/internal/limit"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// reloadIfChanged compares a folder with the loaded content. It loads a change once
// two polls in a row have seen the same content, or at once if p.immediate is set. It
// reports whether another poll should follow soon.
func (w *Watch) reloadIfChanged(ctx context.Context, a *watchedApp, p pollMode) (again bool) {
	hash, limit, err := w.hashApp(ctx, a)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		w.markUnreadable(a, err)
		return false
	case hash == a.loadedHash && !(p.requested && (w.hasPendingRevision(a.name) || w.hasUnsteadyFailure(a.name))):
		a.pendingHash = ""
		w.markReadable(a)
		return false
	case hash == a.loadedHash || p.immediate:
	case hash != a.pendingHash:
		a.pendingHash, a.pendingSince = hash, w.opts.Clock()
		return true
	case w.opts.Clock().Sub(a.pendingSince) < w.opts.Settle:
		return true // the last poll was too recent
	}
	a.attemptedHash = hash
	before := a.outsideFiles
	var got loadResult
	if limit != nil {
		got.ds = append(got.ds, limit.toDiagnostic(a.dir))
	} else {
		got = w.loader.loadAppSafely(ctx, a.dir, &a.cache, w.readTests())
	}
	// Files may have changed during the load: the loaded content must be the settled
	// one.
	now, _, err := w.hashApp(ctx, a)
	if ctx.Err() != nil || !p.immediate && (err != nil || now != hash) {
		if got.app != nil {
			got.app.Close()
		}
		a.pendingHash, a.pendingSince = now, w.opts.Clock()
		return ctx.Err() == nil
	}
	if a.outsideFiles = got.outside; !slices.Equal(before, a.outsideFiles) {
		if hash, _, err = w.hashApp(ctx, a); err != nil {
			hash = ""
		}
	}
	a.loadedHash, a.pendingHash = hash, ""
	return !w.publishResult(ctx, a, got, p)
}

// readTests returns how to read the tests of an app; nil if tests are not read.
func (w *Watch) readTests() func(context.Context, *resolver) {
	if w.opts.Tests {
		return checkFiles
	}
	return nil
}

// hashApp returns the hash of the folder and of the outside files. For a folder beyond
// the limits it is the message of the limit.
func (w *Watch) hashApp(ctx context.Context, a *watchedApp) (string, *limitError, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit.AppLoad.Time, folderTooSlow)
	defer cancel()
	began := time.Now()
	hash, err := a.tree.hashFolder(ctx, a.dir, a.outsideFiles)
	now := time.Now()
	if rest := idleFactor * now.Sub(began); rest > w.opts.Settle {
		a.nextPollAt.Store(now.Add(min(rest, w.opts.Poll)).UnixNano())
	}
	w.mu.Lock()
	if !slices.Equal(a.folders, a.tree.folders) {
		a.folders = a.tree.folders
		w.wakeUp() // watch the new folders
	}
	w.mu.Unlock()
	if limit := (*limitError)(nil); errors.As(err, &limit) {
		return limit.message, limit, nil
	}
	return hash, nil, err
}

// publishResult swaps in a loaded app, or keeps the serving one. It returns false if a
// newer save stopped the gate, so that another poll must follow.
func (w *Watch) publishResult(ctx context.Context, a *watchedApp, got loadResult, p pollMode) bool {
	old, _ := w.Status(a.name)
	s := Status{App: a.name, Dir: a.dir, Revision: old.Revision, OK: got.app != nil, Diagnostics: got.ds, Loaded: w.opts.Clock()}
	s.LastGood, s.LoadCount, s.FailedCount = old.LastGood, old.LoadCount+1, old.FailedCount
	switch {
	case got.app == nil:
	case got.app.Revision() == old.Revision:
		got.app.Close()
	case a.manualReload && !p.requested:
		s.OK, s.PendingRevision = false, got.app.Revision()
		got.app.Close()
		w.opts.Logger.Info("app changed; pending manual reload (SIGHUP or POST /-/reload)", "app", a.name, "revision", s.Revision, "waiting", s.PendingRevision)
	default:
		if !w.gateAndSwap(ctx, a, got, &s) {
			return ctx.Err() != nil
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
	return true
}

// gateAndSwap passes an app through the gate, stores its revision, since events refer
// to it, and publishes it. If the revision cannot be stored, a later poll retries. It
// returns false if the watch has ended, or a newer save has stopped the gate.
func (w *Watch) gateAndSwap(ctx context.Context, a *watchedApp, got loadResult, s *Status) bool {
	failures, finished := w.runGate(ctx, a, got.app)
	if !finished {
		got.app.Close()
		return false
	}
	s.Diagnostics = append(slices.Clone(got.ds), failures...)
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
	s.Revision, a.manualReload = got.app.Revision(), got.app.Reload().Sessions == runtime.FollowManual
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

// recordReport appends a report about the change of a status, unless both are
// equivalent. The new status must have been stored before.
func (w *Watch) recordReport(a *watchedApp, got loadResult, old, now Status) {
	r := Report{App: now.App, Time: now.Loaded, From: old.Revision, To: now.Revision}
	switch {
	case now.Unreadable != old.Unreadable && now.Unreadable != "":
		r.Kind = ReportUnreadable
	case now.OK && now.Revision != old.Revision:
		r.Kind = ReportLoaded
	case now.OK && !old.OK:
		r.Kind = ReportRecovered
	case now.PendingRevision != "" && now.PendingRevision != old.PendingRevision:
		r.Kind, r.To = ReportWaiting, now.PendingRevision
	case !now.OK && now.PendingRevision == "" && (old.OK || !slices.Equal(old.Diagnostics.Strings(), now.Diagnostics.Strings())):
		r.Kind = ReportRefused
	default:
		return
	}
	var before, after *store.Revision
	if old.Revision != "" && (r.Kind == ReportLoaded || r.Kind == ReportWaiting) {
		before, after = &store.Revision{App: r.App, Files: a.servingFiles}, &store.Revision{App: r.App, Files: got.files}
		r.Files = ChangedFiles(before.Files, after.Files)
	}
	if r.Kind == ReportLoaded {
		a.servingFiles = got.files
	}
	w.journal.appendReport(r, before, after)
}

// removeIfAbsent removes an app whose folder has been missing for long enough.
func (w *Watch) removeIfAbsent(a *watchedApp, p pollMode) (again bool) {
	now := w.opts.Clock()
	first := a.missingSince.IsZero()
	if first {
		a.missingSince = now
	}
	if !p.immediate && (first || now.Sub(a.missingSince) < w.opts.Absence && !p.requested) {
		return true
	}
	w.host.Remove(a.name)
	a.loadedHash, a.pendingHash = "", ""
	w.mu.Lock()
	delete(w.apps, a.name)
	w.mu.Unlock()
	w.reportMu.Lock()
	defer w.reportMu.Unlock()
	was, _ := w.Status(a.name)
	w.deleteStatus(a.name)
	w.opts.Logger.Info("app removed", "app", a.name)
	w.journal.appendReport(Report{App: a.name, Time: now, Kind: ReportRemoved, From: was.Revision}, nil, nil)
	return false
}

// markUnreadable shows in the status of an app that its folder cannot be read. The app
// keeps its revision.
func (w *Watch) markUnreadable(a *watchedApp, err error) {
	reason := formatFolderError(err)
	w.reportMu.Lock()
	defer w.reportMu.Unlock()
	old, _ := w.Status(a.name)
	if old.Unreadable == reason {
		return
	}
	if old.Unreadable == "" {
		a.readable = old
	}
	now := old
	now.App, now.Dir, now.OK, now.Unreadable = a.name, a.dir, false, reason
	now.Diagnostics = unreadableDiagnostics(a.dir, old.Revision, reason)
	now.PendingRevision = ""
	if byFolder := (*folderError)(nil); !errors.As(err, &byFolder) { // otherwise the folder is logged, with its apps
		w.opts.Logger.Warn("cannot read app folder; the loaded revision keeps serving", "app", a.name, "revision", old.Revision, "error", err)
	}
	w.publishStatus(a, old, now)
}

// markReadable restores the status of an app whose folder can be read again, with the
// content that was loaded last.
func (w *Watch) markReadable(a *watchedApp) {
	w.reportMu.Lock()
	defer w.reportMu.Unlock()
	old, _ := w.Status(a.name)
	if old.Unreadable == "" {
		return
	}
	w.opts.Logger.Info("app can be read again", "app", a.name, "revision", old.Revision)
	w.publishStatus(a, old, a.readable)
}

// publishStatus stores a status without a load, and reports it. The caller holds reportMu.
func (w *Watch) publishStatus(a *watchedApp, old, now Status) {
	now.Loading = false
	w.statusMu.Lock()
	w.status[a.name] = now
	w.statusMu.Unlock()
	reported := now
	reported.Loaded = w.opts.Clock()
	w.recordReport(a, loadResult{files: a.servingFiles}, old, reported)
}

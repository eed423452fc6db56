package loader

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agenthost/internal/limit"
	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// A saved file reaches the host in one trip, which one poll makes while it has the app (busy):
//
//	hash       the folder and the files outside of it that the app reads
//	settle     the same hash in two polls: an editor or git has finished writing
//	load       parse, resolve, check and compile, with the parts that have not changed
//	hash       again: what was loaded is what has settled, or the trip starts over
//	gate       tests and eval sets, if the app has a gate; a newer save ends it
//	store      the revision, since events will name it
//	admit      hold it, if Admit decides so: a rollout of it has not ended
//	swap       one atomic pointer; running turns keep their app
//	report     status, log, OnLoad, journal
//
// Invariants:
//   - The host serves whole apps: nothing before swap changes the serving one, and every step
//     before it can only end with a status. An error, a panic or a full disk keeps the last good
//     revision.
//   - A revision is stored before it serves.
//   - A held app never serves here, and is closed: only its revision is pending. The revision that
//     Admit names serves instead, also after a restart. If it is not available, the serving one keeps
//     serving, and if none serves, the app that would have been held does. Storing a held revision
//     never prunes the serving one.
//   - loadedHash is the content that was judged last, good or bad, so that a bad app is reported
//     once; empty forces another trip, after a gate that was stopped, or a store or an admission that
//     failed. Reconsider forces one for a held app, without the gate that it has passed.
//   - Each loaded app is closed here, or belongs to the host after Swap.
//   - Only the poll of an app changes its status (but for Loading), so the trip reads it once.
//
// Content hashes decide, not times or notifications: a notification only makes the poll come
// sooner, and a file that is touched or restored loads nothing.

// A reload is a changed folder on its way to the host.
type reload struct {
	app  *watchedApp
	mode pollMode
	// old is the status before. It changes only here, by the poll that has the app.
	old Status
	got loadResult
	// reconsidered reports that the content is held, has passed the gate, and has not changed.
	reconsidered bool
}

// reloadIfChanged compares a folder with the loaded content. It loads a change once
// two polls in a row have seen the same content, or at once if p.immediate is set. It
// reports whether another poll should follow soon.
func (w *Watch) reloadIfChanged(ctx context.Context, a *watchedApp, p pollMode) (again bool) {
	hash, limit, err := w.hashApp(ctx, a)
	old, _ := w.status.getStatus(a.name)
	reconsidered := err == nil && hash == a.loadedHash && a.mustReconsider(old)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		w.markUnreadable(a, err)
		return false
	case hash == a.loadedHash && !reconsidered && !(p.requested && (old.PendingRevision != "" || w.hasUnsteadyFailure(old))):
		a.pendingHash = ""
		if old.Unreadable != "" { // restore the status for the content that was loaded last
			w.reportMu.Lock()
			defer w.reportMu.Unlock()
			w.opts.Logger.Info("app can be read again", "app", a.name, "revision", old.Revision)
			w.publishStatus(a, old, a.readable)
		}
		return a.reconsider.Load()
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
		var readTests func(context.Context, *resolver)
		if w.opts.Tests {
			readTests = checkFiles
		}
		got = w.loader.loadAppSafely(ctx, a.dir, &a.cache, readTests)
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
	return !w.publishResult(ctx, &reload{a, p, old, got, reconsidered})
}

// hashApp returns the hash over the folder and the outside files. For a folder beyond the limits it
// is the limit's message.
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
func (w *Watch) publishResult(ctx context.Context, r *reload) bool {
	a, old, got := r.app, r.old, r.got
	s := Status{App: a.name, Dir: a.dir, Revision: old.Revision, OK: got.app != nil, Diagnostics: got.ds, Loaded: w.opts.Clock()}
	s.LastGood, s.LoadCount, s.FailedCount = old.LastGood, old.LoadCount+1, old.FailedCount
	switch {
	case got.app == nil:
	case got.app.Revision() == old.Revision:
		if old.Held != "" && !w.reportReturn(ctx, r) {
			a.loadedHash = ""
		}
		got.app.Close()
	case a.manualReload && !r.mode.requested && !r.reconsidered:
		s.OK, s.PendingRevision = false, got.app.Revision()
		got.app.Close()
		w.opts.Logger.Info("app changed; pending manual reload (SIGHUP or POST /-/reload)", "app", a.name, "revision", s.Revision, "waiting", s.PendingRevision)
	default:
		if !w.gateAndSwap(ctx, r, &s) {
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
	if s.Diagnostics.HasErrors() && !slices.Equal(old.Diagnostics.Strings(), s.Diagnostics.Strings()) {
		what := "app rejected; no revision is serving"
		if s.Revision != "" {
			what = "app rejected; the last good revision keeps serving"
		}
		w.opts.Logger.Error(what, "app", a.name, "revision", s.Revision, "problems", len(s.Diagnostics))
	}
	if err := s.Diagnostics.WriteText(w.opts.Problems); err != nil {
		w.opts.Logger.Warn("cannot write the diagnostics of an app", "app", a.name, "error", err)
	}
	w.status.putStatus(a.name, s)
	w.opts.OnLoad(s)
	w.recordReport(a, got, old, s)
	return true
}

// gateAndSwap passes an app through the gate, stores its revision, since events refer
// to it, and publishes it unless it is held. If the revision cannot be stored, or the admission fails, a
// later poll retries. It returns false if the watch has ended, or a newer save has stopped the gate.
func (w *Watch) gateAndSwap(ctx context.Context, r *reload, s *Status) bool {
	a, got := r.app, r.got
	s.Diagnostics = slices.Clone(got.ds)
	if !r.reconsidered || r.old.PendingRevision != got.app.Revision() {
		failures, finished := w.runGate(ctx, a, got.app)
		if !finished {
			got.app.Close()
			return false
		}
		s.Diagnostics = append(s.Diagnostics, failures...)
	}
	retry := func(message string, err error) {
		a.loadedHash = ""
		s.Diagnostics = append(s.Diagnostics, spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(a.dir)}, Rule: "file", Message: message + err.Error()})
	}
	if ctx.Err() == nil && !s.Diagnostics.HasErrors() && w.opts.Revisions != nil {
		if err := w.saveRevision(ctx, r); err != nil {
			retry("cannot store the revision, which is required before it serves: ", err)
		}
	}
	var d decision
	if ctx.Err() == nil && !s.Diagnostics.HasErrors() {
		var err error
		if d, err = w.decideAdmission(ctx, r); err != nil {
			retry("cannot decide whether the revision may serve: ", err)
		}
	}
	if ctx.Err() != nil {
		got.app.Close()
		if d.instead != nil {
			d.instead.Close()
		}
		return false
	}
	if d.lack != "" {
		w.opts.Logger.Warn("the app should be held, and serves because nothing else does", "app", s.App, "revision", got.app.Revision(), "reason", d.reason, "lack", d.lack)
		s.Diagnostics = append(s.Diagnostics, spec.Diagnostic{
			Pos: spec.Pos{File: filepath.ToSlash(a.dir)}, Rule: "file", Severity: spec.Warning,
			Message: "the revision should be held (" + d.reason + "), and serves because nothing else does: " + d.lack,
		})
	}
	s.Diagnostics.Sort()
	switch {
	case s.Diagnostics.HasErrors():
		s.OK = false
		got.app.Close()
	case d.held:
		w.markHeld(r, s, &d)
	default:
		s.Revision = got.app.Revision()
		w.publishApp(a, got.app)
		w.opts.Logger.Info("app loaded", "app", s.App, "revision", s.Revision, "warnings", len(s.Diagnostics))
	}
	return true
}

var errNewerSave = errors.New("the app changed again")

// runGate passes an app through the gate. A newer save stops the gate, since its answer no
// longer matters, and finished is false.
func (w *Watch) runGate(ctx context.Context, a *watchedApp, app *runtime.App) (failures spec.Diagnostics, finished bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer safe.Recover(w.logPanic)
		if w.waitForSave(ctx, a) {
			cancel(errNewerSave)
		}
	})
	failures = w.opts.Gate(ctx, a.dir, app)
	cancel(nil)
	watching.Wait()
	if !errors.Is(context.Cause(ctx), errNewerSave) {
		return failures, true
	}
	w.opts.Logger.Info("gate stopped: the app changed again", "app", a.name, "revision", app.Revision())
	a.loadedHash, a.pendingHash = "", "" // even if the next save restores this content
	return nil, false
}

// waitForSave returns true when an app's files differ from the loaded ones, or false when ctx ends.
// It looks when a poll was due.
func (w *Watch) waitForSave(ctx context.Context, a *watchedApp) bool {
	ticker := time.NewTicker(w.opts.Settle)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
		if !a.missed.Swap(false) {
			continue
		}
		if hash, _, err := w.hashApp(ctx, a); err == nil && hash != a.loadedHash {
			return ctx.Err() == nil
		}
	}
}

// recordReport appends a report about a status change, unless both are equivalent. The new status
// must have been stored before.
func (w *Watch) recordReport(a *watchedApp, got loadResult, old, now Status) {
	r := Report{App: now.App, Time: now.Loaded, From: old.Revision, To: now.Revision}
	switch {
	case now.Unreadable != old.Unreadable && now.Unreadable != "":
		r.Kind = ReportUnreadable
	case now.OK && now.Revision != old.Revision:
		r.Kind = ReportLoaded
	case now.OK && !old.OK:
		r.Kind = ReportRecovered
	case now.Held != "" && (now.PendingRevision != old.PendingRevision || now.Held != old.Held || now.Revision != old.Revision):
		r.Kind, r.From, r.To, r.Reason = ReportHeld, now.Revision, now.PendingRevision, now.Held
	case now.PendingRevision != "" && now.PendingRevision != old.PendingRevision:
		r.Kind, r.To = ReportWaiting, now.PendingRevision
	case !now.OK && now.PendingRevision == "" && (old.OK || !slices.Equal(old.Diagnostics.Strings(), now.Diagnostics.Strings())):
		r.Kind = ReportRefused
	default:
		return
	}
	var before, after *store.Revision
	if r.From != "" && (r.Kind == ReportLoaded || r.Kind == ReportWaiting || r.Kind == ReportHeld) {
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
	was, _ := w.status.getStatus(a.name)
	w.status.deleteStatus(a.name)
	w.opts.Logger.Info("app removed", "app", a.name)
	w.journal.appendReport(Report{App: a.name, Time: now, Kind: ReportRemoved, From: was.Revision}, nil, nil)
	return false
}

// markUnreadable shows in an app's status that its folder cannot be read. The app keeps its
// revision.
func (w *Watch) markUnreadable(a *watchedApp, err error) {
	reason := formatFolderError(err)
	w.reportMu.Lock()
	defer w.reportMu.Unlock()
	old, _ := w.status.getStatus(a.name)
	if old.Unreadable == reason {
		return
	}
	if old.Unreadable == "" {
		a.readable = old
	}
	now := old
	now.App, now.Dir, now.OK, now.Unreadable = a.name, a.dir, false, reason
	message := "the app's folder cannot be read, and no revision is serving: " + reason
	if old.Revision != "" {
		message = "the app's folder cannot be read, and its last good revision keeps serving: " + reason
	}
	d := spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(a.dir)}, Rule: "file", Message: message}
	now.Diagnostics = spec.Diagnostics{d.WithHint("restore the folder; the app is reloaded as soon as it can be read")}
	now.PendingRevision, now.Held = "", ""
	if byFolder := (*folderError)(nil); !errors.As(err, &byFolder) { // otherwise the folder is logged, with its apps
		w.opts.Logger.Warn("cannot read app folder; the loaded revision keeps serving", "app", a.name, "revision", old.Revision, "error", err)
	}
	w.publishStatus(a, old, now)
}

// publishStatus stores a status without a load, and reports it. The caller holds reportMu.
func (w *Watch) publishStatus(a *watchedApp, old, now Status) {
	now.Loading = false
	w.status.putStatus(a.name, now)
	reported := now
	reported.Loaded = w.opts.Clock()
	w.recordReport(a, loadResult{files: a.servingFiles}, old, reported)
}

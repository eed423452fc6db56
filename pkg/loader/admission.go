package loader

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// An AdmitFunc decides whether a changed app is published, after it has passed the gate and its
// revision is stored. It must not keep the app, and it is called concurrently for different apps.
// After an error what serves keeps serving, and a later poll calls it again.
type AdmitFunc func(ctx context.Context, app *runtime.App) (Admission, error)

// An Admission is an [AdmitFunc]'s decision. The zero value publishes the app.
type Admission struct {
	// Hold keeps the app from serving until [Watch.Reconsider], a requested reload or a change. It
	// becomes the status's PendingRevision.
	Hold bool
	// Reason is why, for people.
	Reason string
	// Serving is the stored revision that serves instead of a held app. If another one or none serves,
	// the watch builds it and publishes it. Empty is what serves.
	Serving string
}

// A decision is an Admission with what serves instead.
type decision struct {
	held   bool
	reason string
	// instead is published if it is not nil; its files are insteadFiles.
	instead      *runtime.App
	insteadFiles map[string][]byte
	// lack is why a held app is published nevertheless.
	lack string
}

// Reconsider makes the next poll of an app ask [WatchOptions].Admit again if the app is held, although
// its files have not changed. It does not wait for the poll.
func (w *Watch) Reconsider(app string) {
	w.mu.Lock()
	a := w.apps[app]
	w.mu.Unlock()
	if a != nil {
		a.reconsider.Store(true)
		w.setDue(app)
	}
}

// mustReconsider reports whether Reconsider was called for an app whose loaded content is held.
func (a *watchedApp) mustReconsider(s Status) bool {
	if s.Held == "" && s.Unreadable == "" {
		a.reconsider.Store(false)
	}
	return s.Held != "" && a.reconsider.Load()
}

// decideAdmission decides whether a loaded app is published. If what should serve instead is not available,
// the last good state keeps serving; without one the loaded app serves, since it has passed its gate.
func (w *Watch) decideAdmission(ctx context.Context, r *reload) (d decision, err error) {
	r.app.reconsider.Store(false)
	if w.opts.Admit == nil {
		return d, nil
	}
	admission, err := w.opts.Admit(ctx, r.got.app)
	if err != nil || !admission.Hold || admission.Serving == r.got.app.Revision() {
		return d, err
	}
	d = decision{held: true, reason: cmp.Or(admission.Reason, "no reason is given")}
	if serving := cmp.Or(admission.Serving, r.old.Revision); serving != "" && serving == r.old.Revision {
		return d, nil
	}
	lack, err := w.buildInstead(ctx, r, admission.Serving, &d)
	switch {
	case err != nil:
		return decision{}, err
	case lack == "":
	case r.old.Revision != "":
		d.reason += "; what should serve is not available, revision " + r.old.Revision + " keeps serving: " + lack
	default:
		return decision{lack: lack, reason: d.reason}, nil
	}
	return d, nil
}

// reportReturn lets Admit see that the files of a held app are again those that serve, which changes nothing
// here. It reports whether Admit did.
func (w *Watch) reportReturn(ctx context.Context, r *reload) bool {
	_, err := w.opts.Admit(ctx, r.got.app)
	if err != nil && ctx.Err() == nil {
		w.opts.Logger.Warn("a held change was taken back in the files, which could not be stored yet", "app", r.app.name, "error", err)
	}
	return err == nil
}

// buildInstead builds the revision that serves instead of a held app. lack is why it is not available;
// an error may be gone in a later attempt.
func (w *Watch) buildInstead(ctx context.Context, r *reload, revision string, d *decision) (lack string, err error) {
	switch {
	case revision == "":
		return "no revision serves", nil
	case w.opts.Revisions == nil:
		return "revision " + revision + " is not stored, revisions are not stored", nil
	}
	rev, err := w.opts.Revisions.Get(ctx, r.app.name, revision)
	if errors.Is(err, session.ErrNotFound) {
		return err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	app, err := w.loader.LoadRevision(ctx, rev, r.app.dir)
	if err != nil {
		return err.Error(), ctx.Err()
	}
	d.instead, d.insteadFiles = app, rev.Files
	return "", nil
}

// saveRevision stores a loaded app's revision. With Admit it keeps more revisions than configured, so that
// the one that serves is not pruned while another one is held, and no revision when nothing serves.
func (w *Watch) saveRevision(ctx context.Context, r *reload) error {
	kept := &LoadedApp{r.got.app, r.got.files}
	if w.opts.Admit == nil {
		return kept.SaveRevision(ctx, w.opts.Revisions)
	}
	keep := allRevisions
	if r.old.Revision != "" {
		all, err := w.opts.Revisions.List(ctx, r.app.name)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(all, func(rev *store.Revision) bool { return rev.ID == r.old.Revision })
		keep = max(kept.App.Reload().KeepRevisions, at+2)
	}
	return kept.saveAtMost(ctx, w.opts.Revisions, keep)
}

// allRevisions is more than an app can have.
const allRevisions = 1 << 30

// markHeld keeps a loaded app from serving, and publishes what serves instead.
func (w *Watch) markHeld(r *reload, s *Status, d *decision) {
	s.OK, s.PendingRevision, s.Held = false, r.got.app.Revision(), d.reason
	r.got.app.Close()
	if d.instead != nil {
		s.Revision, r.app.servingFiles = d.instead.Revision(), d.insteadFiles
		w.publishApp(r.app, d.instead)
	}
	if r.old.PendingRevision != s.PendingRevision || r.old.Held != s.Held || r.old.Revision != s.Revision {
		w.opts.Logger.Info("app changed; held", "app", s.App, "revision", s.Revision, "held", s.PendingRevision, "reason", s.Held)
	}
}

// publishApp makes an app the serving one.
func (w *Watch) publishApp(a *watchedApp, app *runtime.App) {
	a.manualReload = app.Reload().Sessions == runtime.FollowManual
	w.host.Swap(app)
}

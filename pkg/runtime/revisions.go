package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// revisionCache holds apps of older revisions, loaded for sessions that still
// use them.
type revisionCache struct {
	// build is nil when older revisions are not available.
	build func(ctx context.Context, app, revision string) (*App, error)
	mu    sync.Mutex
	apps  map[string][]*App // by name, the most recently used last
}

// acquire returns the app of a revision and acquires a reference to it. The
// cache keeps at most KeepRevisions apps per name.
func (r *revisionCache) acquire(ctx context.Context, serving *App, revision string) (*App, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name, all := serving.Name, r.apps[serving.Name]
	at := slices.IndexFunc(all, func(a *App) bool { return a.Revision == revision })
	var app *App
	if at >= 0 {
		app = all[at]
		all = slices.Delete(all, at, at+1)
	} else {
		var err error
		if app, err = r.build(ctx, name, revision); err != nil {
			return nil, err
		}
	}
	all = append(all, app)
	for len(all) > serving.Reload.KeepRevisions {
		all[0].refs.release()
		all = all[1:]
	}
	if r.apps == nil {
		r.apps = map[string][]*App{}
	}
	r.apps[name] = all
	app.refs.acquire()
	return app, nil
}

// dropApp releases all revisions of an app.
func (r *revisionCache) dropApp(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.apps[name] {
		a.refs.release()
	}
	delete(r.apps, name)
}

// acquireRevision returns the app that runs a request, and acquires a
// reference to it: the current one, or that of the revision on which the
// request continues.
func (h *Host) acquireRevision(ctx context.Context, serving *App, sess *session.Session, req *RunRequest) (*App, error) {
	revision, continues, err := h.chooseRevision(ctx, serving, sess, req)
	if err != nil {
		return nil, err
	}
	if revision == "" || revision == serving.Revision || h.revisions.build == nil {
		serving.refs.acquire()
		return serving, nil
	}
	app, err := h.revisions.acquire(ctx, serving, revision)
	switch {
	case err == nil:
		return app, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case continues && errors.Is(err, session.ErrNotFound):
		return nil, invalidRequest("the invocation cannot be resumed: revision %s of app %s, which started it, is no longer kept; start a new one", revision, serving.Name)
	case continues:
		h.logger.Error("loading a revision failed", "app", serving.Name, "revision", revision, "error", err)
		return nil, invalidRequest("the invocation cannot be resumed: revision %s of app %s, which started it, cannot be loaded; start a new one", revision, serving.Name)
	}
	h.logger.Warn("revision not available; continuing the session on the current revision",
		"app", serving.Name, "session", sess.ID, "revision", revision, "serving", serving.Revision, "error", err)
	serving.refs.acquire()
	return serving, nil
}

// chooseRevision returns the revision for a request; empty for the current
// one. A resumed invocation continues on the revision that it started with.
func (h *Host) chooseRevision(ctx context.Context, serving *App, sess *session.Session, req *RunRequest) (revision string, continues bool, err error) {
	answers := model.ResponsesOf(req.Message)
	if serving.Revision == "" || req.InvocationID == "" && len(answers) == 0 {
		if serving.Reload.Sessions == FollowNewSessions {
			revision = session.LastRevision(sess.Events())
		}
		return revision, false, nil
	}
	events := sess.Events()
	if req.effectiveConfig(serving).SessionWindow.storeOptions() != nil {
		whole, err := h.store.Sessions.Get(ctx, sess.Key, nil)
		if err != nil {
			return "", false, storeFailure(sess.Key, err)
		}
		events = whole.Events()
	}
	events = session.Recorded(events)
	invocation := req.InvocationID
	if answered := findAnsweredInvocation(events, answers); answered != "" {
		invocation = answered
	}
	if len(answers) == 0 && hasFailed(events, invocation) {
		return "", false, nil
	}
	return session.RevisionOf(events, invocation), serving.Resumable, nil
}

// hasFailed reports whether an invocation ended with an error. It is then
// resumed on the current revision, which most likely contains the fix.
func hasFailed(events []*session.Event, invocation string) bool {
	for _, ev := range slices.Backward(events) {
		if ev.InvocationID == invocation {
			return ev.ErrorCode != ""
		}
	}
	return false
}

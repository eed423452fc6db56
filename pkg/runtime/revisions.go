package runtime

import (
	"context"
	"errors"
	"slices"
	"sync"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// revisionCache are apps of revisions that do not serve any more, built again for
// the sessions that are still theirs.
type revisionCache struct {
	// build is nil where no revision can be had.
	build func(ctx context.Context, app, revision string) (*App, error)
	mu    sync.Mutex
	apps  map[string][]*App // by name, the one that was used last at the end
}

// acquire returns an app of a revision with a hold on it. Only so many of one
// name are there at a time.
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

// dropApp lets go of the apps of a name.
func (r *revisionCache) dropApp(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.apps[name] {
		a.refs.release()
	}
	delete(r.apps, name)
}

// acquireRevision is the app that a request to a session runs on, with a hold on it: the
// one that serves, or that of the revision which the request goes on with.
func (h *Host) acquireRevision(ctx context.Context, serving *App, sess *session.Session, req *RunRequest) (*App, error) {
	revision, goesOn, err := h.chooseRevision(ctx, serving, sess, req)
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
	case goesOn && errors.Is(err, session.ErrNotFound):
		return nil, invalidRequest("the invocation cannot be resumed: revision %s of app %s, which began it, is not kept any more; begin a new one", revision, serving.Name)
	case goesOn:
		h.logger.Error("a revision cannot be built again", "app", serving.Name, "revision", revision, "error", err)
		return nil, invalidRequest("the invocation cannot be resumed: revision %s of app %s, which began it, cannot be built any more; begin a new one", revision, serving.Name)
	}
	h.logger.Warn("a revision cannot be had: its session goes on with the one that serves",
		"app", serving.Name, "session", sess.ID, "revision", revision, "serving", serving.Revision, "error", err)
	serving.refs.acquire()
	return serving, nil
}

// chooseRevision is the revision that a request goes on with; empty for the one
// that serves. An invocation that waits or was cut off goes on with the one that
// it began with.
func (h *Host) chooseRevision(ctx context.Context, serving *App, sess *session.Session, req *RunRequest) (revision string, goesOn bool, err error) {
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

// hasFailed says whether an invocation ended in a failure. Whoever resumes it has
// mended something, and most often the app.
func hasFailed(events []*session.Event, invocation string) bool {
	for _, ev := range slices.Backward(events) {
		if ev.InvocationID == invocation {
			return ev.ErrorCode != ""
		}
	}
	return false
}

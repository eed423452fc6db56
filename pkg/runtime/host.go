package runtime

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	goruntime "runtime"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/template"
)

// NewHost returns a host without apps. The caller closes the store after the
// last run.
func NewHost(st *store.Store, opts *Options) *Host {
	if opts == nil {
		opts = &Options{}
	}
	h := &Host{store: st, newID: opts.NewID, now: opts.Clock, wait: opts.Wait, logger: opts.Logger, traceContents: opts.TraceContents, observe: opts.Observe, runTool: opts.RunTool, replay: opts.Replay, consents: opts.Consents}
	h.newRunID = func() string { return runIDPrefix + opts.NewID() }
	if h.newID == nil {
		h.newID, h.newRunID = randomID, randomRunID
	}
	if h.now == nil {
		h.now = time.Now
	}
	if h.wait == 0 {
		h.wait = 30 * time.Second
	}
	if h.logger == nil {
		h.logger = slog.New(slog.DiscardHandler)
	}
	if p := opts.TracerProvider; p != nil {
		if _, recordsNothing := p.(noop.TracerProvider); !recordsNothing {
			h.tracer = p.Tracer(TracerName)
		}
	}
	h.revisions.build, h.split, h.splitFailed = opts.LoadRevision, opts.Split, opts.SplitFailed
	if h.splitFailed == nil {
		h.splitFailed = func(string, string, error) {}
	}
	h.evaluations = template.NewSlots(max(2, goruntime.GOMAXPROCS(0)))
	h.workers = callWorkers{limit: cmp.Or(opts.ToolWorkers, DefaultToolWorkers), log: h.logger}
	h.apps.Store(&map[string]*App{})
	return h
}

// InMemory returns a host with apps on a new in-memory store: sessions live as
// long as the host. It is for tests and for programs without persistent
// sessions.
func InMemory(apps ...*App) (*Host, error) {
	h := NewHost(memstore.New(nil), nil)
	for _, app := range apps {
		h.Swap(app)
	}
	return h, nil
}

// Apps returns the current snapshots, sorted by name.
func (h *Host) Apps() []*App {
	apps := slices.Collect(maps.Values(*h.apps.Load()))
	slices.SortFunc(apps, func(a, b *App) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	return apps
}

// App returns an app's current snapshot, or nil.
func (h *Host) App(name string) *App { return (*h.apps.Load())[name] }

// Swap publishes a snapshot, which replaces the app's previous one. Runs that
// hold the previous snapshot finish on it.
func (h *Host) Swap(app *App) {
	h.replaceApp(app.name, app)
}

// Remove removes an app. Runs that hold it finish.
func (h *Host) Remove(name string) {
	h.replaceApp(name, nil)
}

func (h *Host) replaceApp(name string, app *App) {
	h.mu.Lock()
	next := maps.Clone(*h.apps.Load())
	old := next[name]
	if app == nil {
		delete(next, name)
	} else {
		next[name] = app
	}
	h.apps.Store(&next)
	h.mu.Unlock()
	if old != nil && old != app {
		old.refs.release()
	}
	if app == nil {
		h.revisions.dropApp(name)
	}
}

// DeleteSession deletes a session with its artifacts, as [store.Store.Delete] does. The app's
// [App.OutcomeRetention] applies; of an app that the host does not have, no outcomes are kept.
func (h *Host) DeleteSession(ctx context.Context, key session.Key) error {
	var keep time.Duration
	if app := h.App(key.App); app != nil {
		keep = app.OutcomeRetention()
	}
	return h.store.Delete(ctx, key, keep)
}

// Close removes every app. It does not wait for runs.
func (h *Host) Close() {
	for _, a := range h.Apps() {
		h.Remove(a.name)
	}
}

// Acquire returns an app's current snapshot, which stays open until release is called, even if
// another one replaces it. If there is none, the error is the same as for a run.
func (h *Host) Acquire(name string) (app *App, release func(), err error) {
	if app, err = h.acquireApp(name); err != nil {
		return nil, nil, err
	}
	return app, sync.OnceFunc(app.refs.release), nil
}

func (h *Host) acquireApp(name string) (*App, error) {
	for {
		a := h.App(name)
		if a != nil && a.refs.acquire() {
			return a, nil
		}
		// A snapshot that closed in between has a successor, or none.
		if a == h.App(name) {
			return nil, failf(CodeAppNotFound, session.ErrNotFound, "App not found: %s", name)
		}
	}
}

// validateRequest requires a message, unless an invocation is resumed.
func (req *RunRequest) validateRequest() error {
	switch {
	case req.MaxToolCalls < 0:
		return invalidRequest("MaxToolCalls must be at least 0, got %d", req.MaxToolCalls)
	case req.MaxToolCalls > 0 && req.drive != nil:
		return invalidRequest("MaxToolCalls must be 0 in a live conversation, got %d", req.MaxToolCalls)
	}
	if req.Message == nil && req.InvocationID != "" {
		if len(req.StateDelta) > 0 {
			return invalidRequest("stateDelta requires a message: it cannot be combined with invocationId alone")
		}
		return nil
	}
	return checkMessage(req.Message)
}

// Run runs one invocation and yields its events. Each event is stored before
// it is yielded, except for partial events, which are not stored. The agent
// continues when the consumer asks for the next event. The user's own event is
// stored first and not yielded. A failure is yielded as an error, which
// [AsRunError] converts, and ends the run; stored events stay. A consumer that
// stops ends the run.
func (h *Host) Run(ctx context.Context, req *RunRequest) Events {
	return func(yield func(*session.Event, error) bool) {
		ctx, span := h.beginRunSpan(ctx, req)
		room := h.newRunRoom(session.Key{App: req.App, User: req.UserID, ID: req.SessionID}, span, yield)
		defer room.output.guard.recoverPanic()
		defer span.endSpan()
		app, err := h.acquireApp(req.App)
		if err != nil {
			room.deliverEvent(nil, err)
			return
		}
		defer app.refs.release()
		wait := h.wait
		if req.drive != nil {
			wait = min(wait, twoWaySessionWait)
		} else {
			err = req.validateRequest()
		}
		if err == nil {
			err = req.validateConfig(h)
		}
		if err != nil {
			room.deliverEvent(nil, err)
			return
		}
		ctx, sess, free, err := h.acquireSession(ctx, app, req, wait)
		if err != nil {
			room.deliverEvent(nil, err)
			return
		}
		defer free()
		span.recordSessionWait()
		room.output.ctx = ctx
		if req.drive != nil {
			room.runTwoWay(ctx, app, sess, req)
			return
		}
		room.runInvocation(ctx, app, sess, req)
	}
}

// acquireSession waits until it holds the session lease, for at most wait, and loads or creates the
// session. If another host creates the session first, it waits for that host. All this has one
// timeout of the store. It returns the context of the run.
func (h *Host) acquireSession(ctx context.Context, app *App, req *RunRequest, wait time.Duration) (run context.Context, sess *session.Session, free func(), err error) {
	key := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
	ctx = store.ShareTimeout(ctx)
	for {
		if run, free, err = h.store.Sessions.Acquire(ctx, key, wait); err != nil {
			return nil, nil, nil, storeFailure(key, err)
		}
		sess, err = h.store.Sessions.Get(ctx, key, req.effectiveConfig(app).SessionWindow.storeOptions())
		if req.CreateSession && errors.Is(err, session.ErrNotFound) {
			sess, err = h.store.Sessions.Create(ctx, key, nil)
		}
		if err == nil {
			return run, sess, free, nil
		}
		free()
		if !errors.Is(err, session.ErrExists) {
			return nil, nil, nil, storeFailure(key, err)
		}
	}
}

// validateConfig validates a request's config, and logs one without a limit on model calls.
func (req *RunRequest) validateConfig(h *Host) error {
	if req.Config == nil {
		return nil
	}
	if err := req.Config.validateConfig(); err != nil {
		return err
	}
	if req.Config.MaxLLMCalls <= 0 {
		h.logger.Warn("request without a limit on model calls",
			"app", req.App, "session", req.SessionID, "max_llm_calls", req.Config.MaxLLMCalls)
	}
	return nil
}

func checkMessage(c *genai.Content) error {
	if c == nil || len(c.Parts) == 0 {
		return failf(CodeInvalidRequest, session.ErrInvalid, "No parts in the new_message.")
	}
	switch c.Role {
	case "", genai.RoleUser, "function", "tool": // the roles that current and old clients send
	default:
		return failf(CodeInvalidRequest, session.ErrInvalid, "the role of the new message must be user, got %q", c.Role)
	}
	if len(model.CallsOf(c)) > 0 {
		return failf(CodeInvalidRequest, session.ErrInvalid, "the new message must not contain a function call")
	}
	return nil
}

// acquire returns a revision's app and acquires a reference to it. The cache keeps at most
// KeepRevisions apps per name, and in addition the revision that was assigned to a new session last: it
// is built once, however many revisions earlier sessions need.
//
// Runs that need one revision at the same time build it once; builds of others do not wait for it. If
// the run that builds is canceled, another one builds.
func (r *revisionCache) acquire(ctx context.Context, serving *App, choice revisionChoice) (*App, error) {
	key := buildKey{serving.name, choice.revision}
	for {
		r.mu.Lock()
		if app := r.findApp(key); app != nil {
			r.acquireApp(app, serving, choice)
			r.mu.Unlock()
			return app, nil
		}
		running := r.builds[key]
		if running == nil {
			running = &revisionBuild{done: make(chan struct{}), err: errBuildPanicked}
			if r.builds == nil {
				r.builds = map[buildKey]*revisionBuild{}
			}
			r.builds[key] = running
			r.mu.Unlock()
			return r.buildApp(ctx, serving, choice, running)
		}
		r.mu.Unlock()
		select {
		case <-running.done:
			if err := running.err; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// errBuildPanicked is a build's error until it has returned.
var errBuildPanicked = errors.New("building the revision panicked")

// buildApp builds a revision's app, keeps it, and acquires a reference to it.
func (r *revisionCache) buildApp(ctx context.Context, serving *App, choice revisionChoice, build *revisionBuild) (app *App, err error) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if app != nil {
			r.acquireApp(app, serving, choice)
		}
		delete(r.builds, buildKey{serving.name, choice.revision})
		close(build.done)
	}()
	app, err = r.build(ctx, serving.name, choice.revision)
	build.err = err
	return app, err
}

// findApp returns a cached app, or nil. The caller holds the lock.
func (r *revisionCache) findApp(key buildKey) *App {
	all := r.apps[key.app]
	if i := slices.IndexFunc(all, func(a *App) bool { return a.revision == key.revision }); i >= 0 {
		return all[i]
	}
	return nil
}

// acquireApp acquires a reference to an app, and caches it as the most recently used one. The caller holds
// the lock.
func (r *revisionCache) acquireApp(app, serving *App, choice revisionChoice) {
	if r.apps == nil {
		r.apps, r.assigned = map[string][]*App{}, map[string]string{}
	}
	if choice.isNew {
		r.assigned[serving.name] = choice.revision
	}
	app.refs.acquire()
	others := slices.DeleteFunc(r.apps[serving.name], func(a *App) bool { return a == app })
	r.apps[serving.name] = r.evictApps(append(others, app), serving)
}

// evictApps releases the least recently used revisions above the limit.
func (r *revisionCache) evictApps(all []*App, serving *App) []*App {
	assigned := r.assigned[serving.name]
	if assigned == serving.revision {
		assigned = "" // sessions get it without the cache
	}
	kept := 0
	for i := len(all) - 1; i >= 0; i-- {
		if assigned != "" && all[i].revision == assigned {
			continue
		}
		if kept++; kept > serving.reload.KeepRevisions {
			all[i].refs.release()
			all = slices.Delete(all, i, i+1)
		}
	}
	return all
}

// dropApp releases all revisions of an app.
func (r *revisionCache) dropApp(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.apps[name] {
		a.refs.release()
	}
	delete(r.apps, name)
	delete(r.assigned, name)
}

// A revisionChoice is the revision that runs a request.
type revisionChoice struct {
	revision string // empty for the serving one
	// continues reports that the request continues an invocation, isNew that the session has no
	// revision yet.
	continues, isNew bool
	// selected is [Split].Selected for a session that gets a revision, split reports that it chose.
	selected, split bool
}

// acquireRevision returns the app that runs a request, and acquires a
// reference to it: the current one, or that of the revision on which the
// request continues. It also returns whether an expression assigned the revision in this turn.
func (h *Host) acquireRevision(ctx context.Context, serving *App, sess *session.Session, req *RunRequest) (app *App, selected bool, err error) {
	choice, err := h.chooseRevision(ctx, serving, sess, req)
	if err != nil {
		return nil, false, err
	}
	revision := choice.revision
	if revision == "" || revision == serving.revision || h.revisions.build == nil {
		serving.refs.acquire()
		return serving, choice.selected, nil
	}
	app, err = h.revisions.acquire(ctx, serving, choice)
	message := "revision not available; continuing the session on the current revision"
	switch {
	case err == nil:
		return app, choice.selected, nil
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case choice.continues && errors.Is(err, session.ErrNotFound):
		return nil, false, invalidRequest("the invocation cannot be resumed: revision %s of app %s, which started it, is no longer kept; start a new one", revision, serving.name)
	case choice.continues:
		h.logger.Error("loading a revision failed", "app", serving.name, "revision", revision, "error", err)
		return nil, false, invalidRequest("the invocation cannot be resumed: revision %s of app %s, which started it, cannot be loaded; start a new one", revision, serving.name)
	case choice.isNew:
		message = "revision not available; starting the session on the current revision"
	}
	if choice.split {
		h.splitFailed(serving.name, revision, err)
	}
	h.logger.Warn(message, "app", serving.name, "session", sess.ID, "revision", revision, "serving", serving.revision, "error", err)
	serving.refs.acquire()
	return serving, choice.selected, nil
}

// splitRevision chooses the revision of a turn that continues no invocation.
func (h *Host) splitRevision(ctx context.Context, serving *App, sess *session.Session) revisionChoice {
	if serving.reload.Sessions != FollowNewSessions {
		return revisionChoice{}
	}
	last := session.LastRevision(sess.Events())
	if h.split == nil || serving.revision == "" {
		return revisionChoice{revision: last}
	}
	split := h.split(ctx, serving, sess, last)
	choice := revisionChoice{revision: cmp.Or(split.Revision, serving.revision), isNew: last == "", split: true}
	choice.selected = split.Selected && choice.revision != last
	return choice
}

// chooseRevision returns the revision for a request. A resumed invocation continues on the revision that
// it started with.
func (h *Host) chooseRevision(ctx context.Context, serving *App, sess *session.Session, req *RunRequest) (choice revisionChoice, err error) {
	answers := model.ResponsesOf(req.Message)
	if serving.revision == "" || req.InvocationID == "" && req.joined.invocation == "" && len(answers) == 0 {
		return h.splitRevision(ctx, serving, sess), nil
	}
	events := sess.Events()
	if req.effectiveConfig(serving).SessionWindow.storeOptions() != nil {
		whole, err := h.store.Sessions.Get(ctx, sess.Key, nil)
		if err != nil {
			return choice, storeFailure(sess.Key, err)
		}
		events = whole.Events()
	}
	events = session.Recorded(events)
	invocation := cmp.Or(req.InvocationID, req.joined.invocation)
	if len(answers) > 0 {
		invocation = cmp.Or(indexEvents(events).findAnsweredInvocation(answers), invocation)
	}
	if len(answers) == 0 {
		for _, ev := range slices.Backward(events) {
			if ev.InvocationID != invocation {
				continue
			}
			if ev.ErrorCode != "" { // it ended with an error, which the current revision most likely fixes
				return choice, nil
			}
			break
		}
	}
	return revisionChoice{revision: session.RevisionOf(events, invocation), continues: serving.resumable}, nil
}

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
	"sync/atomic"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/template"
)

// A Host holds apps and runs invocations of them. It is safe for concurrent
// use.
type Host struct {
	store  *store.Store
	newID  func() string
	now    func() time.Time
	wait   time.Duration
	logger *slog.Logger
	// observe is nil when spans are not observed.
	observe func(*Span)

	mu   sync.Mutex // serialises Swap and Remove
	apps atomic.Pointer[map[string]*App]

	revisions revisionCache
	workers   callWorkers
	// evaluations bound the large expressions of all runs.
	evaluations template.Slots
}

// Options configure a host. The zero value is valid.
type Options struct {
	// NewID returns IDs for events, invocations and calls; nil means random
	// UUIDs.
	NewID func() string
	// Clock returns the time of events; nil means time.Now.
	Clock func() time.Time
	// Wait is the longest time that a run waits for another run of its
	// session; zero means 30 seconds.
	Wait time.Duration
	// LoadRevision loads an app at an older revision, for invocations and
	// sessions that continue on it. It returns [session.ErrNotFound] for a
	// revision that is not kept. Nil runs everything on the current revision.
	LoadRevision func(ctx context.Context, app, revision string) (*App, error)
	// Logger receives log records; nil disables logging.
	Logger *slog.Logger
	// ToolWorkers is the maximum number of goroutines that execute tool calls,
	// in addition to the goroutines of the runs; zero means
	// [DefaultToolWorkers].
	ToolWorkers int
	// Observe is called with each span of a run when the span ends. It is
	// called on the goroutines of the run, so slow work must be done
	// elsewhere. Nil disables spans.
	Observe func(*Span)
}

// NewHost returns a host without apps. The caller closes the store after the
// last run.
func NewHost(st *store.Store, opts *Options) *Host {
	if opts == nil {
		opts = &Options{}
	}
	h := &Host{store: st, newID: opts.NewID, now: opts.Clock, wait: opts.Wait, logger: opts.Logger, observe: opts.Observe}
	if h.newID == nil {
		h.newID = randomID
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
	h.revisions.build = opts.LoadRevision
	h.evaluations = template.NewSlots(max(2, goruntime.GOMAXPROCS(0)))
	h.workers = callWorkers{limit: cmp.Or(opts.ToolWorkers, DefaultToolWorkers), log: h.logger}
	h.apps.Store(&map[string]*App{})
	return h
}

// InMemory returns a host with apps on a new in-memory store: sessions live as
// long as the host. It is for tests and for programs without persistent
// sessions.
func InMemory(apps ...*App) (*Host, error) {
	st, err := store.Open(context.Background(), "memory:", nil)
	if err != nil {
		return nil, err
	}
	h := NewHost(st, nil)
	for _, app := range apps {
		h.Swap(app)
	}
	return h, nil
}

// Store returns the store of the host's sessions and artifacts.
func (h *Host) Store() *store.Store { return h.store }

// Apps returns the current snapshots, sorted by name.
func (h *Host) Apps() []*App {
	apps := slices.Collect(maps.Values(*h.apps.Load()))
	slices.SortFunc(apps, func(a, b *App) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return apps
}

// App returns the current snapshot of an app, or nil.
func (h *Host) App(name string) *App { return (*h.apps.Load())[name] }

// Swap publishes a snapshot, which replaces the app's previous one. Runs that
// hold the previous snapshot finish on it.
func (h *Host) Swap(app *App) {
	h.replaceApp(app.Name, app)
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

// Close removes every app. It does not wait for runs.
func (h *Host) Close() {
	for _, a := range h.Apps() {
		h.Remove(a.Name)
	}
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

// A RunRequest describes one invocation.
type RunRequest struct {
	App, UserID, SessionID string
	// Message is the user message. It must have parts and must not contain a
	// function call.
	Message *genai.Content
	// StateDelta is applied with the user's event.
	StateDelta map[string]any
	// Writer is the author of StateDelta; the zero value is a client.
	Writer session.Writer
	// Streaming requests partial events; nil uses the setting of the app.
	Streaming *bool
	// CustomMetadata is added to every event.
	CustomMetadata map[string]any
	// Config replaces the config of the app; nil uses the app's. To change
	// single fields, see [RunConfig.Override].
	Config *RunConfig
	// CreateSession creates the session when it does not exist.
	CreateSession bool
	// InvocationID resumes an interrupted invocation of a resumable app,
	// without a message or with one that answers a call of it. An invocation
	// that has ended has no more events. A message that answers a call resumes
	// the invocation of the call even without InvocationID.
	InvocationID string
	// OnLastEvent, if set, is called before the run yields its last event. It
	// is not called when the last event is not known in advance: when
	// callbacks, plugins, checkpoints or other agents follow.
	OnLastEvent func()
}

// validateRequest requires a message, unless an invocation is resumed.
func (req *RunRequest) validateRequest() error {
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
		guarded := panicGuard[*session.Event]{yield: span.recordErrors(yield)}
		guarded.onPanic = func(_ *Invocation, p *safe.Panic) error { return h.runPanicked(req, p) }
		defer guarded.recoverPanic()
		defer span.end(h.now)
		yield = guarded.forwardValue
		app, err := h.acquireApp(req.App)
		if err != nil {
			yield(nil, err)
			return
		}
		defer app.refs.release()
		err = req.validateRequest()
		if err == nil {
			err = req.validateConfig(h)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		ctx, sess, free, err := h.acquireSession(ctx, app, req)
		if err != nil {
			yield(nil, err)
			return
		}
		defer free()
		span.recordSessionWait(h.now)
		h.runInvocation(ctx, app, sess, req, reportingStoreCause(ctx, sess.Key, yield))
	}
}

// acquireSession waits until it holds the lease of the session, and loads or
// creates the session. If another host creates the session first, it waits for
// that host. It returns the context of the run.
func (h *Host) acquireSession(ctx context.Context, app *App, req *RunRequest) (run context.Context, sess *session.Session, free func(), err error) {
	key := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
	for {
		if run, free, err = h.store.Sessions.Acquire(ctx, key, h.wait); err != nil {
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

// reportingStoreCause wraps yield for a run that the store has canceled: it
// replaces the resulting error with the cause.
func reportingStoreCause(ctx context.Context, key session.Key, yield func(*session.Event, error) bool) func(*session.Event, error) bool {
	return func(ev *session.Event, err error) bool {
		if err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, session.ErrFenced) || errors.Is(cause, session.ErrNotFound) {
				err = storeFailure(key, cause)
			}
		}
		return yield(ev, err)
	}
}

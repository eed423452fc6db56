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

// A Host holds all apps and lets runs in. Many goroutines may use it.
type Host struct {
	store  *store.Store
	newID  func() string
	now    func() time.Time
	wait   time.Duration
	logger *slog.Logger
	// observe is nil where nobody does.
	observe func(*Span)

	mu   sync.Mutex // serialises Swap and Remove
	apps atomic.Pointer[map[string]*App]

	revisions revisionCache
	workers   callWorkers
	// evaluations bound the large expressions of all runs.
	evaluations template.Slots
}

// Options are what a host may be given. The zero value works.
type Options struct {
	// NewID makes ids of events, invocations and calls; nil is random UUIDs.
	NewID func() string
	// Clock tells the time of events; nil is time.Now.
	Clock func() time.Time
	// Wait bounds how long a run waits for another run of its session; zero is
	// 30 seconds.
	Wait time.Duration
	// LoadRevision builds an app of a revision that served once, for invocations and
	// sessions that go on with it; [session.ErrNotFound] is one that is not kept.
	// Nil has everything go on with the one that serves.
	LoadRevision func(ctx context.Context, app, revision string) (*App, error)
	// Logger gets what nobody else is told; nil is silent.
	Logger *slog.Logger
	// ToolWorkers bounds the goroutines that execute tool calls next to those of
	// the turns; zero is [DefaultToolWorkers].
	ToolWorkers int
	// Observe is told of each span of a run when it has ended, in the run's
	// goroutines: what takes long is to be done elsewhere. Nil observes nothing.
	Observe func(*Span)
}

// NewHost makes a host without apps over a store. The store stays the
// caller's to close, after the last run.
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
	h.workers = callWorkers{limit: cmp.Or(opts.ToolWorkers, DefaultToolWorkers), logger: h.logger}
	h.apps.Store(&map[string]*App{})
	return h
}

// InMemory makes a host with apps over a new store in memory: sessions live as
// long as the host. It is for tests and for programs that keep nothing.
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

// Store is where the host's sessions and artifacts are kept.
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

// Swap puts a snapshot in the place of the app's last one. Runs that hold the
// last one finish on it.
func (h *Host) Swap(app *App) {
	h.replaceApp(app.Name, app)
}

// Remove takes an app away. Runs that hold it finish.
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

// A RunRequest asks for one invocation.
type RunRequest struct {
	App, UserID, SessionID string
	// Message is what the user says. It needs parts and may hold no function call.
	Message *genai.Content
	// StateDelta is applied with the user's event.
	StateDelta map[string]any
	// Writer is the party that StateDelta is of; the zero value is a client.
	Writer session.Writer
	// Streaming asks for partial events; nil leaves it to the app.
	Streaming *bool
	// CustomMetadata is added to every event.
	CustomMetadata map[string]any
	// Config takes the place of the app's; nil is the app's. See
	// [RunConfig.Override] for a part of one.
	Config *RunConfig
	// CreateSession makes the session when it is not there.
	CreateSession bool
	// InvocationID resumes an invocation of a resumable app where it was cut
	// off, without a message or with one that answers a call of it. One that
	// has ended has no more events. A message that answers a call resumes the
	// call's invocation without this.
	InvocationID string
	// OnLastEvent, if set, is called before the run yields an event that ends it.
	// Not every run can know its last event: where callbacks, plugins, checkpoints
	// or other agents follow, it is not called.
	OnLastEvent func()
}

// validateRequest wants a message, unless an invocation is resumed.
func (req *RunRequest) validateRequest() error {
	if req.Message == nil && req.InvocationID != "" {
		if len(req.StateDelta) > 0 {
			return invalidRequest("a state delta is stored with a message: there is none beside invocationId")
		}
		return nil
	}
	return checkMessage(req.Message)
}

// Run carries out one invocation and yields its events: each is stored before
// it is yielded (partial ones are yielded only), and the agent goes on when the
// consumer asks for the next. The user's own event is stored first and not
// yielded. A failure is yielded as an error that [AsRunError] words, and ends
// the run; what was stored stays. A consumer that stops ends the run.
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

// acquireSession waits until the session is this run's, and reads it, or makes it. Where
// another host was faster in making it, that host has it, and is waited for. The
// context is the run's.
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

// reportingStoreCause says of a run that the store has ended why it did, in the place of
// whatever came of that.
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

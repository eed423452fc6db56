package server

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/auth"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// A Server answers HTTP requests over a host. Many goroutines may use it.
type Server struct {
	host *runtime.Host
	opts Options
	mux  *http.ServeMux
	runs runGate
	// readiness knows whether the store can write.
	readiness readiness
	// stopping is closed when the host is about to stop; stop closes it.
	stopping chan struct{}
	stop     func()
	// stateMetrics are the metrics of this server and its host; nil without Metrics.
	stateMetrics *prometheus.Registry
	// changeStreams has a place for each stream of changes that may be open.
	changeStreams chan struct{}

	userLimiter, appLimiter rateLimiter
	detachedRuns            cancelGroup
	drafts                  draftStore
	buffers                 bufferPool
	responses               *responseBudget

	// openAPI and docsPage make both documents once, when they are first asked for.
	openAPI, docsPage func() ([]byte, error)
}

// Options are what a server may be given. The zero value works.
type Options struct {
	// Version is what /version says; empty is "dev".
	Version string
	// Reloader knows the problems of apps; nil knows none.
	Reloader Reloader
	// Logger is told of failures that clients are not told of, and at debug
	// level of each request; nil is silent.
	Logger *slog.Logger
	// MaxBody bounds the bytes of a request body; zero is 32 MiB.
	MaxBody int64
	// KeepAlive is how long a stream is silent before it gets a comment line; zero
	// writes comments only to clients that ask for event ids, after 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout bounds how long a client may take for one frame of a stream, or
	// for 64 KiB of another answer; zero is 30 seconds.
	WriteTimeout time.Duration
	// ReadTimeout bounds how long a client may take for the body of a request, also
	// of one that needs none; zero is a minute.
	ReadTimeout time.Duration
	// MaxRunTime ends runs that take longer; zero ends none.
	MaxRunTime time.Duration
	// MaxResponseBytes bounds the bytes of large answers that clients have yet to read,
	// a quarter of them for one user; zero is 256 MiB.
	MaxResponseBytes int64
	// MaxChangeStreams bounds the streams of changes that are open; zero is 64.
	MaxChangeStreams int
	// Wait bounds how long a change of a session waits for a run of it; zero
	// is 30 seconds.
	Wait time.Duration
	// AllowedHosts are the Host headers that are answered, with a port or for
	// any port; empty answers all.
	AllowedHosts []string
	// Auth knows callers; nil asks nobody who they are, and believes them.
	Auth *auth.Auth
	// RunsPerUser and RunsPerApp bound how many runs are let in; the zero Rate is
	// no bound.
	RunsPerUser, RunsPerApp Rate
	// AutoCreateSession makes sessions that a run names and nobody made; else
	// such a run is answered 404.
	AutoCreateSession bool
	// Metrics are what GET /metrics answers with; nil has no such path.
	Metrics *Metrics
	// Traces are what developers see of runs; nil shows none.
	Traces *Traces
	// Folders are the files of apps, which developers see; nil shows none.
	Folders Folders
	// Dev lets whoever talks to the host write the files of Folders.
	Dev bool
	// UI is a built ADK Web bundle, served at /dev-ui/; nil is none.
	UI fs.FS
	// Clock times requests for the log; nil is time.Now.
	Clock func() time.Time
	// NewID makes the ids of invocations that change a state; nil is random
	// UUIDs.
	NewID func() string
}

// A Reloader loads apps when their files change, and knows how that went.
type Reloader interface {
	// Status is what is known of an app, also of one that never loaded; false
	// when there is no such app.
	Status(app string) (Status, bool)
	// Statuses is what is known of every app, sorted by name.
	Statuses() []Status
	// Reload loads what was changed, now, and lets in what waited for it. It
	// fails when that cannot be found out.
	Reload(ctx context.Context) error
	// Reports returns what was told after the report of a number, the oldest
	// first, as far as it is remembered, and a channel that closes when there is
	// more. Statuses that are asked for later are at least as new.
	Reports(after int) ([]Report, <-chan struct{})
}

// A Status says how the loading of an app went. It is the body of
// /apps/{app}/diagnostics.
type Status struct {
	App string `json:"app"`
	// Revision is the one that serves; empty when none does.
	Revision string `json:"revision"`
	// OK says whether the app's files are what serves.
	OK bool `json:"ok"`
	// Waiting is the revision of the app's files where it serves only when
	// somebody says so.
	Waiting string `json:"waiting,omitempty"`
	// Loading says that the files are still being loaded, or pass the app's gate,
	// longer than a reload waits for it.
	Loading bool `json:"loading,omitempty"`
	// Diagnostics are the problems of the app's files, warnings too.
	Diagnostics spec.Diagnostics `json:"diagnostics"`
	// Loaded is when the files were last loaded, or tried to.
	Loaded time.Time `json:"loaded,omitzero"`
	// Loads is for the metrics.
	Loads Loads `json:"-"`
}

// Loads are the times that the files of an app were loaded.
type Loads struct {
	// Last is when that was, Good when it went well for the last time.
	Last, Good time.Time
	// All counts them, Failed those that went wrong.
	All, Failed int
}

// New makes a server over a host, which stays the caller's to close. Nil
// options are the zero options.
func New(host *runtime.Host, opts *Options) *Server {
	s := &Server{host: host, mux: http.NewServeMux(), stopping: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.stopping) })
	if opts != nil {
		s.opts = *opts
	}
	s.opts.setDefaults()
	s.responses = newResponseBudget(s.opts.MaxResponseBytes)
	s.readiness = readiness{ping: func(ctx context.Context) error { return host.Store().Ping(ctx) }, clock: s.opts.Clock}
	s.changeStreams = make(chan struct{}, s.opts.MaxChangeStreams)
	s.userLimiter = rateLimiter{rate: s.opts.RunsPerUser, clock: s.opts.Clock}
	s.appLimiter = rateLimiter{rate: s.opts.RunsPerApp, clock: s.opts.Clock}
	s.openAPI = sync.OnceValues(func() ([]byte, error) { return encodeOpenAPI(s.allRoutes()) })
	s.docsPage = sync.OnceValues(renderDocsPage)
	if s.opts.Metrics != nil {
		s.stateMetrics = prometheus.NewRegistry()
		s.stateMetrics.MustRegister(newStateCollector(s))
	}
	for _, r := range slices.DeleteFunc(s.allRoutes(), s.isDisabled) {
		s.mux.HandleFunc(r.pattern, s.wrapHandler(r))
	}
	return s
}

func (o *Options) setDefaults() {
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxBody == 0 {
		o.MaxBody = 32 << 20
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 30 * time.Second
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = time.Minute
	}
	if o.MaxChangeStreams == 0 {
		o.MaxChangeStreams = 64
	}
	if o.Wait == 0 {
		o.Wait = 30 * time.Second
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
}

// A handler answers a request. An error that it returns becomes the answer.
type handler func(w http.ResponseWriter, r *http.Request) error

type route struct {
	pattern string
	handle  handler
}

// allRoutes has every route, also those that the options of this server leave out.
func (s *Server) allRoutes() []route {
	return slices.Concat(s.coreRoutes(), s.devRoutes(), s.devUIRoutes())
}

// isDisabled says whether the options of this server leave a route out.
func (s *Server) isDisabled(r route) bool {
	switch {
	case r.pattern == "GET /metrics":
		return s.opts.Metrics == nil
	default:
		return s.opts.UI == nil && strings.HasPrefix(r.pattern, "GET /dev-ui")
	}
}

// Patterns are those of the routes that this server answers, as [http.ServeMux] reads
// them.
func (s *Server) Patterns() []string {
	var all []string
	for _, r := range slices.DeleteFunc(s.allRoutes(), s.isDisabled) {
		all = append(all, r.pattern)
	}
	return all
}

func (s *Server) coreRoutes() []route {
	const sessions = "/apps/{app}/users/{user}/sessions"
	return []route{
		{"GET /{$}", s.handlePage},
		{"GET /ui/{file}", s.handlePageFile},
		{"GET /docs", s.handleDocs},
		{"GET /openapi.json", s.handleOpenAPI},
		{"GET /health", s.handleHealth},
		{"GET /livez", s.handleLive},
		{"GET /readyz", s.handleReady},
		{"POST /-/reload", s.handleReload},
		{"GET /-/changes", s.handleChanges},
		{"GET /version", s.handleVersion},
		{"GET /list-apps", s.handleListApps},
		{"GET /apps/{app}/diagnostics", s.handleDiagnostics},
		{"GET /apps/{app}/app-info", s.handleAppInfo},
		{"POST /apps/{app}/preview", s.handlePreview},

		{"GET " + sessions, s.handleListSessions},
		{"POST " + sessions, s.handleCreateSession},
		{"GET " + sessions + "/{session}", s.handleSession},
		{"POST " + sessions + "/{session}", s.handleCreateNamedSession},
		{"DELETE " + sessions + "/{session}", s.handleDeleteSession},
		{"PATCH " + sessions + "/{session}", s.handlePatchSession},
		{"POST " + sessions + "/{session}/rewind", s.handleRewind},
		{"PATCH /apps/{app}/users/{user}/memory", s.handleMemory},

		{"GET " + sessions + "/{session}/artifacts", s.handleListArtifacts},
		{"POST " + sessions + "/{session}/artifacts", s.handleSaveArtifact},
		{"GET " + sessions + "/{session}/artifacts/{name...}", s.handleArtifact},
		{"DELETE " + sessions + "/{session}/artifacts/{name...}", s.handleDeleteArtifact},

		{"POST /run", s.handleRun},
		{"POST /run_sse", s.handleRunSSE},

		{"GET /metrics", s.handlePrometheus},
	}
}

func (s *Server) wrapHandler(rt route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		err := s.authorizeRequest(r, rt.pattern)
		if err == nil {
			err = rt.handle(w, r)
		}
		if err != nil {
			s.writeError(w, r, err)
		}
	}
}

// pathKey is the session that the path names; what it does not name is empty.
func pathKey(r *http.Request) session.Key {
	return session.Key{App: r.PathValue("app"), User: r.PathValue("user"), ID: r.PathValue("session")}
}

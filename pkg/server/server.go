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

	"agenthost/internal/auth"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// A Server serves a host over HTTP. It is safe for concurrent use.
type Server struct {
	host      *runtime.Host
	opts      Options
	mux       *http.ServeMux
	runs      runGate
	readiness readiness
	// stopping is closed by stop when a shutdown starts.
	stopping chan struct{}
	stop     func()
	// stateMetrics are the metrics of this server and its host; nil without
	// Options.Metrics.
	stateMetrics *prometheus.Registry
	// changeStreams is the semaphore of open change streams.
	changeStreams chan struct{}

	userLimiter, appLimiter rateLimiter
	detachedRuns            cancelGroup
	drafts                  draftStore
	buffers                 bufferPool
	responses               *responseBudget

	// openAPI and docsPage encode their documents on first use.
	openAPI, docsPage func() ([]byte, error)
}

// Options configure a server. The zero value is valid.
type Options struct {
	// Version is the version that /version reports; the default is "dev".
	Version string
	// Reloader provides the load status of apps; nil if the apps are not loaded from
	// files.
	Reloader Reloader
	// Logger logs the causes of internal errors and, at level debug, each request; nil
	// discards them.
	Logger *slog.Logger
	// MaxBody limits the bytes of a request body; the default is 32 MiB.
	MaxBody int64
	// KeepAlive is the idle time after which a stream gets a comment line. If it is 0,
	// only clients that ask for event IDs get comments, after 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout limits how long a client may take to read one frame of a stream or
	// 64 KiB of another response; the default is 30 seconds.
	WriteTimeout time.Duration
	// ReadTimeout limits how long a client may take to send a request body, whether or
	// not the route reads it; the default is one minute.
	ReadTimeout time.Duration
	// MaxRunTime cancels runs that take longer; 0 is unlimited.
	MaxRunTime time.Duration
	// MaxResponseBytes limits the bytes of large responses that clients have yet to
	// read. One user may hold a quarter. The default is 256 MiB.
	MaxResponseBytes int64
	// MaxChangeStreams limits the open change streams; the default is 64.
	MaxChangeStreams int
	// Wait limits how long a change of a session waits for a run of the session; the
	// default is 30 seconds.
	Wait time.Duration
	// AllowedHosts lists the accepted Host headers, with a port or for any port; empty
	// accepts all.
	AllowedHosts []string
	// Auth authenticates callers; nil disables authentication and trusts the user ID of
	// each request.
	Auth *auth.Auth
	// RunsPerUser and RunsPerApp are rate limits for runs; the zero Rate is unlimited.
	RunsPerUser, RunsPerApp Rate
	// AutoCreateSession creates missing sessions on first use. Otherwise such a run
	// gets 404.
	AutoCreateSession bool
	// Metrics are served at GET /metrics; nil disables the route.
	Metrics *Metrics
	// Traces are the spans shown to developers; nil shows none.
	Traces *Traces
	// Folders gives developers access to the files of apps; nil gives none.
	Folders Folders
	// Dev lets any client that may use the developer routes write the files of Folders.
	Dev bool
	// UI is a built ADK Web bundle, served at /dev-ui/; nil disables it.
	UI fs.FS
	// Clock is the time source; the default is time.Now.
	Clock func() time.Time
	// NewID generates the IDs of invocations that change a state; the default is random
	// UUIDs.
	NewID func() string
}

// A Reloader loads apps when their files change.
type Reloader interface {
	// Status returns the status of an app, even if it never loaded. It returns false if
	// the app does not exist.
	Status(app string) (Status, bool)
	// Statuses returns the status of every app, sorted by name.
	Statuses() []Status
	// Reload loads changed files now and activates pending revisions. It returns an
	// error if the changes cannot be determined.
	Reload(ctx context.Context) error
	// Reports returns the retained reports after the given number, oldest first, and a
	// channel that closes when there are more. Statuses read later are at least as new.
	Reports(after int) ([]Report, <-chan struct{})
}

// A Status is the load status of an app and the response body of
// /apps/{app}/diagnostics.
type Status struct {
	App string `json:"app"`
	// Revision is the active revision; empty if there is none.
	Revision string `json:"revision"`
	// OK reports whether the active revision matches the files.
	OK bool `json:"ok"`
	// Waiting is the revision of the files that waits for a manual reload.
	Waiting string `json:"waiting,omitempty"`
	// Loading reports that the files are still being loaded, or that the gate of the
	// app is still running, after a reload stopped waiting.
	Loading bool `json:"loading,omitempty"`
	// Diagnostics lists the errors and warnings of the files.
	Diagnostics spec.Diagnostics `json:"diagnostics"`
	// Loaded is when the last load of the files ended, successful or not.
	Loaded time.Time `json:"loaded,omitzero"`
	// Loads holds the counters for the metrics.
	Loads Loads `json:"-"`
}

// Loads counts the loads of an app.
type Loads struct {
	// Last is the time of the last load, Good of the last successful one.
	Last, Good time.Time
	// All counts all loads, Failed the failed ones.
	All, Failed int
}

// New returns a server for a host. The caller closes the host. Nil options are the zero
// options.
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
	if s.opts.Metrics != nil {
		s.stateMetrics = prometheus.NewRegistry()
		s.stateMetrics.MustRegister(newStateCollector(s))
	}
	s.registerRoutes()
	return s
}

// registerRoutes registers the enabled routes, and the documents that describe all
// routes.
func (s *Server) registerRoutes() {
	for _, r := range slices.DeleteFunc(s.allRoutes(), s.isDisabled) {
		s.mux.HandleFunc(r.pattern, s.wrapHandler(r))
	}
	s.openAPI = sync.OnceValues(func() ([]byte, error) { return encodeOpenAPI(listPatterns(s.allRoutes())) })
	s.docsPage = sync.OnceValues(renderDocsPage)
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

// A handler handles a request. An error that it returns becomes the response.
type handler func(w http.ResponseWriter, r *http.Request) error

type route struct {
	pattern string
	handle  handler
}

// allRoutes lists every route, including those that the options disable.
func (s *Server) allRoutes() []route {
	return slices.Concat(s.coreRoutes(), s.devRoutes(), s.devUIRoutes())
}

// isDisabled reports whether the options disable a route.
func (s *Server) isDisabled(r route) bool {
	switch {
	case r.pattern == "GET /metrics":
		return s.opts.Metrics == nil
	default:
		return s.opts.UI == nil && strings.HasPrefix(r.pattern, "GET /dev-ui")
	}
}

// Patterns returns the patterns of the enabled routes in the syntax of [http.ServeMux].
func (s *Server) Patterns() []string {
	return listPatterns(slices.DeleteFunc(s.allRoutes(), s.isDisabled))
}

func listPatterns(routes []route) []string {
	patterns := make([]string, len(routes))
	for i, r := range routes {
		patterns[i] = r.pattern
	}
	return patterns
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

// pathKey returns the session key in the path; missing parts are empty.
func pathKey(r *http.Request) session.Key {
	return session.Key{App: r.PathValue("app"), User: r.PathValue("user"), ID: r.PathValue("session")}
}

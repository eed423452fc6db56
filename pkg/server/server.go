package server

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"agenthost/internal/limit"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A Server serves a host over HTTP. It is safe for concurrent use.
type Server struct {
	*Services
	mux *http.ServeMux
	// routes are the mounted routes by their patterns in the mux.
	routes map[string]*mountedRoute
}

// Options configure a server. The zero value is valid.
type Options struct {
	// Version is the version that /version reports; the default is "dev".
	Version string
	// Run runs the /run and /run_sse requests; nil for the host's Run.
	Run func(ctx context.Context, req *runtime.RunRequest) runtime.Events
	// Reloader provides the load status of apps; nil if the apps are not loaded from
	// files.
	Reloader Reloader
	// Logger logs the causes of internal errors and, at level debug, each request; nil
	// discards them.
	Logger *slog.Logger
	// MaxBody limits a request body in bytes; the default is 32 MiB.
	MaxBody int64
	// KeepAlive is the idle time after which a stream gets a comment line. If it is 0,
	// only clients that ask for event IDs get comments, after 15 seconds.
	KeepAlive time.Duration
	// WriteTimeout limits how long a client may take to read one stream frame or 64 KiB of
	// another response; the default is 30 seconds.
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
	// Wait limits how long a session change waits for a run in the session; the default is 30
	// seconds.
	Wait time.Duration
	// PublicURL is the URL at which clients reach the server, for addresses in responses; empty to use
	// a request's Host header.
	PublicURL string
	// AllowedHosts lists the accepted Host headers, with a port or for any port; empty
	// accepts all.
	AllowedHosts []string
	// Auth authenticates callers; nil disables authentication and trusts each request's user
	// ID. [ReadAuth] reads it from a file.
	Auth *Auth
	// RunsPerUser and RunsPerApp are rate limits for runs; the zero Rate is unlimited.
	RunsPerUser, RunsPerApp Rate
	// AutoCreateSession creates missing sessions on first use. Otherwise such a run
	// gets 404.
	AutoCreateSession bool
	// Metrics are served at GET /metrics; nil disables the route.
	Metrics *Metrics
	// Extensions add routes. Each is called once, before the first request.
	Extensions []func(*Services) *Extension
	// Clock is the time source; the default is time.Now.
	Clock func() time.Time
	// NewID generates the IDs for invocations that change a state; the default is random
	// UUIDs.
	NewID func() string
}

// A Reloader loads apps when their files change.
type Reloader interface {
	// Status returns an app's status, even if it never loaded. It returns false if the app
	// does not exist.
	Status(app string) (Status, bool)
	// Statuses returns every app's status, sorted by name.
	Statuses() []Status
	// Folders returns the state for each folder in which the reloader finds apps.
	Folders() []FolderStatus
	// Reload loads changed files now and activates pending revisions. It returns an
	// error if the changes cannot be determined.
	Reload(ctx context.Context) error
	// Reports returns the retained reports after the given number, oldest first, and a
	// channel that closes when there are more. Statuses read later are at least as new.
	Reports(after int) ([]Report, <-chan struct{})
}

// A Status is an app's load status and the /apps/{app}/diagnostics response body.
type Status struct {
	App string `json:"app"`
	// Revision is the active revision; empty if there is none.
	Revision string `json:"revision"`
	// OK reports whether the active revision matches the files.
	OK bool `json:"ok"`
	// Waiting is the revision of the files that waits for a manual reload, or is held.
	Waiting string `json:"waiting,omitempty"`
	// Held is why Waiting is held; empty if it waits for a manual reload.
	Held string `json:"held,omitempty"`
	// Loading reports that the files are still being loaded, or that the app's gate is still
	// running, after a reload stopped waiting.
	Loading bool `json:"loading,omitempty"`
	// Unreadable is why the app's folder cannot be read; empty if it can.
	Unreadable string `json:"unreadable,omitempty"`
	// Diagnostics lists the errors and warnings in the files.
	Diagnostics spec.Diagnostics `json:"diagnostics"`
	// Loaded is when the last load of the files ended, successful or not.
	Loaded time.Time `json:"loaded,omitzero"`
	// Loads holds the counters for the metrics.
	Loads Loads `json:"-"`
}

// A FolderStatus is the state of a folder in which a reloader finds apps.
type FolderStatus struct {
	// Name is the folder's base name: responses contain no paths on the host.
	Name string `json:"name"`
	// Unreadable is the reason why the folder cannot be read; empty if it can.
	Unreadable string `json:"unreadable,omitempty"`
	// Problems lists the subfolders that are not served.
	Problems []string `json:"problems,omitempty"`
}

// Loads counts an app's loads.
type Loads struct {
	// Last is the time of the last load, Good of the last successful one.
	Last, Good time.Time
	// All counts all loads, Failed the failed ones.
	All, Failed int
}

// A Report describes the outcome when an app's files changed once.
type Report struct {
	// Number counts a process's reports, starting at 1.
	Number int       `json:"number"`
	App    string    `json:"app"`
	Time   time.Time `json:"time"`
	// What: loaded, refused, waiting, held, recovered (the files match the active revision
	// again), unreadable (the app's folder) or removed; gate_begun, gate_passed and gate_failed, with the
	// gate in Reason; rollout_started, _step, _paused, _resumed, _promoted and _aborted.
	What string `json:"what"`
	// From is the revision that was active before, To the one that is active or pending
	// now; empty if there is none.
	From string `json:"from"`
	To   string `json:"to"`
	// Reason is why To is held, or what happened to it.
	Reason string `json:"reason,omitempty"`
	// By is who decided, for a rollout: a caller, or a host.
	By string `json:"by,omitempty"`
	// Changes lists the agent fields that differ, Files the files.
	Changes []Difference `json:"changes,omitempty"`
	Files   []string     `json:"files,omitempty"`
}

// A Difference is one difference between two app revisions.
type Difference struct {
	// Where is an agent or app.yaml; Field is empty if all of it was added or removed.
	Where string `json:"where"`
	Field string `json:"field,omitempty"`
	// What: added, removed or changed.
	What   string `json:"what"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// New returns a server for a host. The caller closes the host. Nil options are the zero
// options. It panics if two routes have the same pattern, as [http.ServeMux] does, or two metrics of
// extensions the same name.
func New(host *runtime.Host, opts *Options) *Server {
	s := &Services{host: host}
	s.stopContext, s.stop = context.WithCancel(context.Background())
	s.stopping = s.stopContext.Done()
	if opts != nil {
		s.opts = *opts
	}
	s.opts.setDefaults(host)
	s.responses = newResponseBudget(s.opts.MaxResponseBytes)
	s.readiness = readiness{ping: func(ctx context.Context) error { return host.Store().Ping(ctx) }, clock: s.opts.Clock}
	s.artifactReadiness = readiness{ping: func(ctx context.Context) error { return host.Store().Artifacts.Ping(ctx) }, clock: s.opts.Clock}
	s.memoryReadiness = readiness{ping: func(ctx context.Context) error { return host.Store().Memories.Ping(ctx) }, clock: s.opts.Clock}
	s.changeStreams = make(chan struct{}, s.opts.MaxChangeStreams)
	s.userLimiter = rateLimiter{rate: s.opts.RunsPerUser, clock: s.opts.Clock}
	s.appLimiter = rateLimiter{rate: s.opts.RunsPerApp, clock: s.opts.Clock}
	if s.opts.Metrics != nil {
		s.stateMetrics = prometheus.NewRegistry()
		s.stateMetrics.MustRegister(newStateCollector(s))
	}
	server := &Server{Services: s, mux: http.NewServeMux()}
	server.mountRoutes()
	return server
}

func (o *Options) setDefaults(host *runtime.Host) {
	if o.Run == nil {
		o.Run = host.Run
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxBody == 0 {
		o.MaxBody = int64(limit.RequestBody.Bytes)
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

// reloaderStatuses returns the statuses of the reloader's apps, sorted by name.
func (s *Services) reloaderStatuses() []Status {
	if s.opts.Reloader == nil {
		return nil
	}
	return s.opts.Reloader.Statuses()
}

// reloaderFolders returns the states of the reloader's folders.
func (s *Services) reloaderFolders() []FolderStatus {
	if s.opts.Reloader == nil {
		return nil
	}
	return s.opts.Reloader.Folders()
}

// faultyFolders returns the states of the folders that have problems.
func (s *Services) faultyFolders() []FolderStatus {
	return slices.DeleteFunc(slices.Clone(s.reloaderFolders()), func(f FolderStatus) bool {
		return f.Unreadable == "" && len(f.Problems) == 0
	})
}

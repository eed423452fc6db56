package server

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agenthost/internal/auth"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// Services are what route handlers use from their server. They are safe for concurrent use.
type Services struct {
	host              *runtime.Host
	opts              Options
	runs              runGate
	readiness         readiness
	memoryReadiness   readiness
	artifactReadiness readiness
	// stopping is closed by stop when a shutdown starts.
	stopping    <-chan struct{}
	stopContext context.Context
	stop        func()
	// stateMetrics are the metrics of this server and its host; nil without
	// Options.Metrics.
	stateMetrics *prometheus.Registry
	// changeStreams is the semaphore for open change streams.
	changeStreams chan struct{}

	userLimiter, appLimiter rateLimiter
	detachedRuns            runGroup
	responses               *responseBudget
	extensions              []*Extension

	// openAPI and docsPage encode their documents on first use.
	openAPI, docsPage func() ([]byte, error)
}

// Host returns the host that the server serves.
func (s *Services) Host() *runtime.Host { return s.host }

// Logger returns the server's logger; it is not nil.
func (s *Services) Logger() *slog.Logger { return s.opts.Logger }

// Now returns the time on the server's clock.
func (s *Services) Now() time.Time { return s.opts.Clock() }

// Version returns the version that /version reports.
func (s *Services) Version() string { return s.opts.Version }

// CreatesSessions reports whether runs create missing sessions.
func (s *Services) CreatesSessions() bool { return s.opts.AutoCreateSession }

// MaxBody returns the limit for a request body in bytes.
func (s *Services) MaxBody() int64 { return s.opts.MaxBody }

// Stopping returns a context that ends when a shutdown starts. Streams without end return
// then.
func (s *Services) Stopping() context.Context { return s.stopContext }

// HasAuth reports whether callers are authenticated.
func (s *Services) HasAuth() bool { return s.opts.Auth != nil }

// Issuers returns the issuers whose tokens authenticate callers, sorted; nil without
// authentication.
func (s *Services) Issuers() []string {
	if s.opts.Auth == nil {
		return nil
	}
	return s.opts.Auth.Issuers()
}

// A Principal is an authenticated caller.
type Principal = auth.Principal

// principalKey is the key for the caller in a request's context.
type principalKey struct{}

// WithPrincipal returns the request with a caller that an AccessHandler route's handler has
// authenticated. [Services.Authenticate] returns it.
func WithPrincipal(r *http.Request, p *Principal) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), principalKey{}, p))
}

// ReserveRun counts a run for its user and its app. A run that exceeds either limit counts
// for neither.
func (s *Services) ReserveRun(app, user string) error {
	if s.host.App(app) == nil {
		return nil // the run fails anyway; do not track invented names
	}
	if err := s.userLimiter.acquire(user); err != nil {
		return err
	}
	if err := s.appLimiter.acquire(app); err != nil {
		s.userLimiter.refund(user)
		return err
	}
	return nil
}

// RefundMissing returns the app's token if the session does not exist, so that runs in
// invented sessions do not use up other users' allowance. They still count for their own
// user.
func (s *Services) RefundMissing(app string, err error) {
	if classifyError(session.Key{}, err).status == http.StatusNotFound {
		s.appLimiter.refund(app)
	}
}

// TrackRun counts work that a shutdown waits for, until end is called. During a shutdown it
// returns an error. It applies no rate limit; [Services.ReserveRun] does.
func (s *Services) TrackRun() (end func(), err error) {
	if !s.runs.acquire() {
		return nil, errShuttingDown
	}
	return sync.OnceFunc(s.runs.release), nil
}

// TrackFollowUp counts work that follows a run, and that a shutdown waits for, until end is called. It also
// does so during a shutdown, unless no run is in progress: then it returns false.
func (s *Services) TrackFollowUp() (end func(), ok bool) {
	if !s.runs.acquireFollowUp() {
		return nil, false
	}
	return sync.OnceFunc(s.runs.releaseFollowUp), true
}

// WriteLarge encodes a JSON response and writes it within the limit for large responses
// (Options.MaxResponseBytes). It encodes few at a time, because encoding needs more memory
// than the result. A response that reports a completed write is exempt from the limit.
func (s *Services) WriteLarge(w http.ResponseWriter, r *http.Request, exempt bool, encode func() ([]byte, error)) error {
	return s.responses.sendResponse(w, r, responseRequest{exempt: exempt, encode: encode})
}

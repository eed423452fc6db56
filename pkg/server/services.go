package server

import (
	"context"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"agenthost/pkg/runtime"
)

// Services are what handlers of routes use of their server. They are safe for concurrent
// use.
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
	// changeStreams is the semaphore of open change streams.
	changeStreams chan struct{}

	userLimiter, appLimiter rateLimiter
	liveSockets             liveSockets
	tickets                 ticketStore
	detachedRuns            cancelGroup
	drafts                  draftStore
	evalEdits               sync.Mutex // serializes changes of eval sets
	// evalRuns is the semaphore of eval runs.
	evalRuns    chan struct{}
	evalResults resultChecks
	responses   *responseBudget
	extensions  []*Extension

	// openAPI and docsPage encode their documents on first use.
	openAPI, docsPage func() ([]byte, error)
}

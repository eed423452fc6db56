// Package evalweb serves evaluations over HTTP: the routes of ADK's web client for eval sets,
// their cases, runs and results, and those of the page's Evaluations view.
package evalweb

import (
	_ "embed"
	"sync"

	"agenthost/internal/appfolder"
	"agenthost/pkg/server"
)

// Options configure the routes. The zero value is valid: it serves the metrics and the
// results of the session database.
type Options struct {
	// Folders has the eval sets and the results, as files of apps; nil has none.
	Folders appfolder.Folders
	// Dev lets any client that may use the developer routes change and run eval sets.
	Dev bool
	// Evaluator runs eval sets for clients that may; nil disables it.
	Evaluator Evaluator
}

// components are the parameters and schemas of the routes.
//
//go:embed components.yaml
var components []byte

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts  Options
	edits sync.Mutex // serializes changes of eval sets
	// runs is the semaphore of eval runs.
	runs   chan struct{}
	checks resultChecks
}

// Extend returns an extension of servers; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts, runs: make(chan struct{}, maxEvalRuns)}
		return &server.Extension{Routes: h.evalRoutes(), Components: components, Sessions: &evalSessions{h}}
	}
}

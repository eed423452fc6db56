// Package evalweb serves evaluations over HTTP: the routes that ADK's web client uses for
// eval sets, their cases, runs and results, and those for the page's Evaluations view.
package evalweb

import (
	"context"
	_ "embed"
	"iter"
	"sync"

	"agenthost/internal/appfolder"
	"agenthost/pkg/server"
	"agenthost/wing/evaluation/eval"
)

// Options configure the routes. The zero value is valid: it serves the metrics and the
// session database's results.
type Options struct {
	// Folders has the eval sets and the results, as app files; nil has none.
	Folders appfolder.Folders
	// Dev lets any client that may use the developer routes change and run eval sets.
	Dev bool
	// Evaluator runs eval sets for clients that may; nil disables it.
	Evaluator Evaluator
}

// An Evaluator runs eval sets.
type Evaluator interface {
	// Evaluate runs cases on an app's active revision, and stores the result. It yields the
	// run's start, and each case that ended. An error ends the run, and nothing is stored; a
	// request error is a [runtime.RunError], for an unknown name with an
	// [eval.UnknownNameError], and comes before the start. A consumer that stops cancels the
	// run, and nothing is stored.
	Evaluate(ctx context.Context, req *eval.RunRequest) iter.Seq2[*eval.RunProgress, error]
}

// components are the parameters and schemas for the routes.
//
//go:embed components.yaml
var components []byte

// handlers handle the routes.
type handlers struct {
	*server.Services
	opts  Options
	edits sync.Mutex // serializes changes of eval sets
	// runs is the semaphore for eval runs.
	runs   chan struct{}
	checks resultChecks
}

// Extend returns an extension for servers; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts, runs: make(chan struct{}, maxEvalRuns)}
		return &server.Extension{Routes: h.evalRoutes(), Components: components, Sessions: &evalSessions{h}}
	}
}

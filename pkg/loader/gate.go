package loader

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A Gate checks a changed app before it replaces the running revision. If the
// returned problems include an error, the previous revision stays active.
type Gate func(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics

// Gate is the gate that the app configures with reload: {gate: […]}: with tests, all
// tests of the app must pass. It returns the failures.
func (l *Loader) Gate(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	if !slices.Contains(app.Reload.Gate, runtime.GateTests) {
		return nil
	}
	suite, ds := l.Suite(ctx, dir)
	switch {
	case suite == nil:
		return ds
	case suite.Revision != app.Revision:
		return spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "test-failed", Message: "the files changed before the tests ran; the tests run again"}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxGateTime, errors.New("the tests exceeded the limit of 2m0s"))
	defer cancel()
	failures := make([]spec.Diagnostics, len(suite.Tests))
	var wg sync.WaitGroup
	free := make(chan struct{}, maxGateTests)
	for i, t := range suite.Tests {
		free <- struct{}{}
		if ctx.Err() != nil {
			failures[i] = spec.Diagnostics{{
				Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "test-failed",
				Message: fmt.Sprintf("the gate was stopped before %d of %d tests ran: %s", len(suite.Tests)-i, len(suite.Tests), context.Cause(ctx)),
			}}
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			defer safe.Recover(func(p *safe.Panic) {
				p.Log(l.opts.Logger, "test panicked", "app", app.Name, "test", t.Name)
				failures[i] = spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "test-failed", Message: "test " + t.Name + " panicked, which is a bug in agenthost: " + p.Error()}}
			})
			ctx, cancel := context.WithTimeoutCause(ctx, gateTestTimeout, errors.New("the test exceeded the limit of 30s"))
			defer cancel()
			failures[i] = suite.Run(ctx, t).Diagnostics()
		})
	}
	wg.Wait()
	return slices.Concat(failures...)
}

const (
	// maxGateTests limits the concurrent tests of an app, because the host serves
	// requests at the same time.
	maxGateTests = 2
	// gateTestTimeout limits the time of one test, maxGateTime that of all tests.
	gateTestTimeout = 30 * time.Second
	maxGateTime     = 2 * time.Minute
)

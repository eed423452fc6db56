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

// A Gate is asked before a changed app, loaded from a folder, is let in. An
// error among the problems that it returns keeps the app out, and what served
// before serves on.
type Gate func(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics

// Gate is the gate that an app's own reload: {gate: […]} asks for: with tests,
// all tests of the app must pass. It returns what failed.
func (l *Loader) Gate(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	if !slices.Contains(app.Reload.Gate, runtime.GateTests) {
		return nil
	}
	suite, ds := l.Suite(ctx, dir)
	switch {
	case suite == nil:
		return ds
	case suite.Revision != app.Revision:
		return spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "test-failed", Message: "the files changed before the tests ran: they are run again"}}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxGateTime, errors.New("the tests took longer than 2m0s"))
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
				failures[i] = spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "test-failed", Message: "test " + t.Name + " panicked, which is a fault of agenthost: " + p.Error()}}
			})
			ctx, cancel := context.WithTimeoutCause(ctx, gateTestTimeout, errors.New("it took longer than 30s"))
			defer cancel()
			failures[i] = suite.Run(ctx, t).Diagnostics()
		})
	}
	wg.Wait()
	return slices.Concat(failures...)
}

const (
	// maxGateTests is how many tests of an app run at once beside the turns of a
	// host that serves.
	maxGateTests = 2
	// gateTestTimeout is how long one of them may take, maxGateTime all of them.
	gateTestTimeout = 30 * time.Second
	maxGateTime     = 2 * time.Minute
)

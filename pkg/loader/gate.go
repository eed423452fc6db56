package loader

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// A Gate checks a changed app before it replaces the running revision. If the
// returned problems include an error, the previous revision stays active.
type Gate func(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics

// Gate is the gate that the app configures with reload: {gate: […]}: with tests, all
// tests of the app must pass; with evals, then also its eval sets. It returns the failures.
func (l *Loader) Gate(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	return l.runGate(ctx, dir, app, app.Reload().Gate)
}

// runGate runs some checks within the budget of the app. Evals call models, which costs
// money: they run only if the tests pass.
func (l *Loader) runGate(ctx context.Context, dir string, app *runtime.App, checks []string) spec.Diagnostics {
	limit := app.Reload().Budget.Time
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &budgetError{fmt.Sprintf("time budget of %s", limit), "budget: {time: …}"})
	defer cancel()
	var ds spec.Diagnostics
	if slices.Contains(checks, runtime.GateTests) {
		ds = l.gateTests(ctx, dir, app)
	}
	if slices.Contains(checks, runtime.GateEvals) && !ds.HasErrors() {
		ds = append(ds, l.gateEvals(ctx, dir, app)...)
	}
	return ds
}

// A budgetError is the error of a gate that exceeds its budget.
type budgetError struct{ limit, setting string }

// Error names the limit.
func (e *budgetError) Error() string { return "the gate exceeded its " + e.limit }

// gateTests runs the tests of an app.
func (l *Loader) gateTests(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics {
	suite, ds := l.Suite(ctx, dir)
	switch {
	case suite == nil:
		return ds
	case suite.Revision != app.Revision():
		return spec.Diagnostics{failedGate(dir, "test-failed", "the files changed before the tests ran; the tests run again")}
	}
	failures := make([]spec.Diagnostics, len(suite.Tests))
	var wg sync.WaitGroup
	free := make(chan struct{}, maxGateTests)
	for i, t := range suite.Tests {
		free <- struct{}{}
		if ctx.Err() != nil {
			failures[i] = spec.Diagnostics{stoppedGate(ctx, dir, "test-failed", fmt.Sprintf("%d of %d tests", i, len(suite.Tests)))}
			break
		}
		wg.Go(func() {
			defer func() { <-free }()
			defer safe.Recover(func(p *safe.Panic) {
				p.Log(l.opts.Logger, "test panicked", "app", app.Name(), "test", t.Name)
				failures[i] = spec.Diagnostics{failedGate(dir, "test-failed", "test "+t.Name+" panicked, which is a bug in agenthost: "+p.Error())}
			})
			ctx, cancel := context.WithTimeoutCause(ctx, gateTestTimeout, errors.New("the test exceeded the limit of 30s"))
			defer cancel()
			failures[i] = suite.Run(ctx, t).Diagnostics()
		})
	}
	wg.Wait()
	return slices.Concat(failures...)
}

func failedGate(dir, rule, message string) spec.Diagnostic {
	return spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: rule, Message: message}
}

// stoppedGate reports a gate that ended early. done is what had run.
func stoppedGate(ctx context.Context, dir, rule, done string) spec.Diagnostic {
	cause := context.Cause(ctx)
	d := failedGate(dir, rule, fmt.Sprintf("the gate stopped after %s: %s", done, cause))
	if e, ok := errors.AsType[*budgetError](cause); ok {
		d.Hint = "raise " + e.setting + " of reload in app.yaml"
	}
	return d
}

package loader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"agenthost/internal/safe"
)

// Sync loads every changed app now. If a folder cannot be read, it returns an error after it has
// loaded the apps in the others. It does not wait for apps that take longer than MaxWait.
func (w *Watch) Sync(ctx context.Context) error {
	if _, err := w.pollAll(ctx, pollMode{immediate: true, requested: true}); err != nil {
		return err
	}
	w.discoverMu.Lock()
	defer w.discoverMu.Unlock()
	for _, f := range w.folders {
		if f.listing.err != nil {
			return fmt.Errorf("finding apps: %w", f.listing.err)
		}
	}
	return nil
}

// Reload polls each app until it settles, loads changes, and publishes changes that
// wait for a manual reload. The statuses and Folders then have the results. It waits at
// most MaxWait for an app, and 30 s for all apps. Slower loads continue with status
// Loading.
func (w *Watch) Reload(ctx context.Context) error {
	return w.pollUntilSettled(ctx, pollMode{requested: true}, nil)
}

// A poll compares an app's folder with the loaded content once. It runs in its own goroutine.
type poll struct {
	// done is closed at the end, late when the poll exceeds MaxWait.
	done, late chan struct{}
	pollAgain  bool // whether to poll the app again soon; set at the end
}

// waitDone returns when the poll is done or late, or with the error of ctx.
func (p *poll) waitDone(ctx context.Context) error {
	select {
	case <-p.done:
	case <-p.late:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// visitApps finds the app folders and calls visit for every known app by name, with its
// folder; the zero foundApp means that the folder does not exist.
func (w *Watch) visitApps(visit func(a *watchedApp, at foundApp)) {
	w.discoverMu.Lock()
	defer w.discoverMu.Unlock()
	w.listFolders()
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.resolveApps()
	for name, at := range found {
		a := w.apps[name]
		if a == nil {
			a = &watchedApp{name: name, busy: make(chan struct{}, 1)}
			w.apps[name] = a
			w.due[name] = true
		}
		a.folder, a.foundDir = at.folder, at.dir
	}
	for _, name := range slices.Sorted(maps.Keys(w.apps)) {
		visit(w.apps[name], found[name])
	}
}

// pollAll polls every app once, in parallel, and waits. It reports whether another poll
// should follow soon.
func (w *Watch) pollAll(ctx context.Context, p pollMode) (again bool, err error) {
	var mu sync.Mutex
	err = w.runForApps(ctx, nil, func(ctx context.Context, a *watchedApp, at foundApp) error {
		poll := w.startPoll(a, at, p)
		err := poll.waitDone(ctx)
		select {
		case <-poll.done:
			mu.Lock()
			again = again || poll.pollAgain
			mu.Unlock()
		default:
		}
		return err
	})
	return again, err
}

// pollUntilSettled polls apps until they settle, in parallel, and waits. only selects
// apps; nil selects all.
func (w *Watch) pollUntilSettled(ctx context.Context, p pollMode, only func(name string) bool) error {
	limited, cancel := context.WithTimeout(ctx, reloadTimeout)
	defer cancel()
	err := w.runForApps(limited, only, func(ctx context.Context, a *watchedApp, at foundApp) error {
		for {
			poll := w.startPoll(a, at, p)
			if err := poll.waitDone(ctx); err != nil {
				return err
			}
			select {
			case <-poll.done:
			default:
				return nil // late
			}
			if !poll.pollAgain {
				return nil
			}
			select {
			case <-time.After(w.opts.Settle):
			case <-ctx.Done():
				return ctx.Err()
			}
			select {
			case a.busy <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return nil // the remaining polls continue
	}
	return err
}

// runForApps calls fn for every selected app in parallel, once the app is not busy, and
// waits at most MaxWait. If fn starts a poll, the poll releases the app.
func (w *Watch) runForApps(ctx context.Context, only func(name string) bool, fn func(ctx context.Context, a *watchedApp, at foundApp) error) error {
	var all sync.WaitGroup
	errs := make(chan error, 1)
	keep := func(err error) {
		select {
		case errs <- err:
		default:
		}
	}
	fail := func(p *safe.Panic) {
		w.logPanic(p)
		keep(p)
	}
	w.visitApps(func(a *watchedApp, at foundApp) {
		if only != nil && !only(a.name) {
			return
		}
		delete(w.due, a.name)
		all.Go(func() {
			defer safe.Recover(fail)
			select {
			case a.busy <- struct{}{}:
				if err := fn(ctx, a, at); err != nil {
					keep(err)
				}
			case <-time.After(w.opts.MaxWait):
				w.status.setLoading(a.name, at.dir, true)
			case <-ctx.Done():
				w.status.setLoading(a.name, at.dir, true)
				keep(ctx.Err())
			}
		})
	})
	all.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// pollDue starts polls for the due apps, or for all apps, without waiting. A busy app is polled
// later.
func (w *Watch) pollDue(all bool) {
	w.visitApps(func(a *watchedApp, at foundApp) {
		if !all && !w.due[a.name] && at.dir != "" && at.err == nil {
			return
		}
		if rest := time.Until(time.Unix(0, a.nextPollAt.Load())); rest > 0 {
			w.due[a.name] = true
			time.AfterFunc(rest, func() {
				defer safe.Recover(w.logPanic)
				w.wakeUp()
			})
			return
		}
		delete(w.due, a.name)
		a.missed.Store(true)
		select {
		case a.busy <- struct{}{}:
			a.missed.Store(false)
			w.startPoll(a, at, pollMode{})
		default:
		}
	})
}

// setDue schedules a poll for an app.
func (w *Watch) setDue(name string) {
	w.mu.Lock()
	w.due[name] = true
	w.mu.Unlock()
	w.wakeUp()
}

// startPoll polls an app in a new goroutine. The caller holds the app's busy lock,
// which the poll releases.
func (w *Watch) startPoll(a *watchedApp, at foundApp, p pollMode) *poll {
	job := &poll{done: make(chan struct{}), late: make(chan struct{})}
	w.polls.Go(func() {
		defer safe.Recover(w.logPanic)
		defer close(job.done)
		if panicked := safe.Call(func() { job.pollAgain = w.pollApp(a, at, p, job) }); panicked != nil {
			panicked.Log(w.opts.Logger, "app reload panicked", "app", a.name)
			a.loadedHash, a.pendingHash = a.attemptedHash, "" // retry after its files change
		}
		<-a.busy
		if a.missed.Swap(false) || job.pollAgain {
			w.setDue(a.name)
		}
	})
	return job
}

// pollApp polls an app in its lane.
func (w *Watch) pollApp(a *watchedApp, at foundApp, p pollMode, job *poll) (again bool) {
	lane := w.cheapLane
	if time.Duration(a.pollCost.Load()) > costlyThreshold {
		lane = w.costlyLane
	}
	select {
	case lane <- struct{}{}:
	case <-w.pollCtx.Done():
		return false
	}
	leave := sync.OnceFunc(func() { <-lane })
	defer leave()
	defer time.AfterFunc(maxLaneTime, func() {
		defer safe.Recover(w.logPanic)
		leave()
	}).Stop()
	defer time.AfterFunc(w.opts.MaxWait, func() {
		defer safe.Recover(w.logPanic)
		w.status.setLoading(a.name, at.dir, true)
		close(job.late)
	}).Stop()
	began := time.Now()
	defer func() {
		a.pollCost.Store(max(int64(time.Since(began)), a.pollCost.Load()/2))
		w.status.setLoading(a.name, "", false)
	}()
	if at.dir == "" {
		return w.removeIfAbsent(a, p)
	}
	a.dir, a.missingSince = at.dir, time.Time{}
	if at.err != nil {
		w.markUnreadable(a, at.err)
		return false
	}
	return w.reloadIfChanged(w.pollCtx, a, p)
}

// stopPolls cancels all polls and waits for them up to stopTimeout.
func (w *Watch) stopPolls() {
	w.cancelPolls()
	ended := make(chan struct{})
	go func() {
		defer safe.Recover(w.logPanic)
		w.polls.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(stopTimeout):
		w.opts.Logger.Warn("app loads did not stop in time")
	}
}

package loader

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Run watches until ctx is done. It polls an app when the file system reports a change
// in it, and all apps at the poll interval: notifications only reduce latency. If the
// watcher is unavailable or fails, Run polls and tries to create it again. After Run
// returns, no load or publication is in progress.
func (w *Watch) Run(ctx context.Context) error {
	defer w.stopPolls()
	every := time.NewTicker(w.opts.Poll)
	defer every.Stop()
	settle, armed, all := time.NewTimer(0), true, true
	defer settle.Stop()
	n := &notifier{watch: w}
	defer n.close()
	n.updateWatches()
	// A notification does not reschedule a pending poll, so steady writes cannot delay
	// it.
	arm := func() {
		if !armed {
			armed = true
			settle.Reset(w.opts.Settle)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-n.eventChannel():
			n.closeUnlessOK(ok)
			all = !n.markChangedApp(event, ok) || all
			arm()
			continue
		case <-w.wake:
			arm()
			continue
		case err, ok := <-n.errorChannel():
			n.closeUnlessOK(ok)
			if err != nil && !errors.Is(err, fsnotify.ErrEventOverflow) {
				w.opts.Logger.Warn("file watcher failed; polling all folders", "error", err)
			}
			all = true // also after an overflow
		case <-settle.C:
			armed = false
		case <-every.C:
			all = true
		}
		w.pollDue(all)
		all = false
		// Poll new folders: earlier changes in them caused no events.
		if n.updateWatches() {
			all = true
			arm()
		}
	}
}

// notifier wraps a file watcher that may be unavailable.
type notifier struct {
	watch   *Watch
	watcher *fsnotify.Watcher
	// appByDir maps watched folders to their apps' names; "" means none.
	appByDir map[string]string
	// fallbackReason is the reason for falling back to polling.
	fallbackReason string
}

// updateWatches watches exactly the folders in which a change matters. It adds watched folders
// again, because the folder at a path may have been replaced. It reports whether it added a new
// folder.
func (n *notifier) updateWatches() (more bool) {
	if n.watch.opts.PollOnly {
		return false
	}
	if n.watcher == nil {
		watcher, err := n.watch.opts.Watcher()
		if err != nil {
			n.reportFallback(err)
			return false
		}
		n.watcher = watcher
	}
	n.appByDir = n.watch.watchedFolders()
	before := map[string]bool{}
	for _, dir := range n.watcher.WatchList() {
		before[dir] = true
		if _, ok := n.appByDir[dir]; !ok {
			_ = n.watcher.Remove(dir) // fails if the folder was deleted, which needs no watch
		}
	}
	var failure error
	for _, dir := range slices.Sorted(maps.Keys(n.appByDir)) {
		err := n.watcher.Add(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // deleted in the meantime
		case err != nil:
			failure = err
		default:
			more = more || !before[dir]
		}
	}
	n.reportFallback(failure)
	return more
}

// markChangedApp schedules a poll for the changed app. It returns false if the app is unknown.
func (n *notifier) markChangedApp(event fsnotify.Event, ok bool) bool {
	app := n.appByDir[filepath.Dir(event.Name)]
	// An app's folder is also watched for its own replacement.
	if !ok || app == "" || n.appByDir[event.Name] != "" {
		return false
	}
	n.watch.setDue(app)
	return true
}

// reportFallback logs once that the watch falls back to polling, and once that
// notifications are available again.
func (n *notifier) reportFallback(err error) {
	previous := n.fallbackReason
	n.fallbackReason = ""
	if err != nil {
		n.fallbackReason = err.Error()
	}
	switch {
	case (n.fallbackReason == "") == (previous == ""):
	case err != nil:
		n.watch.opts.Logger.Warn("file notifications unavailable, falling back to polling", "every", n.watch.opts.Poll, "error", err)
	default:
		n.watch.opts.Logger.Info("file notifications available again")
	}
}

func (n *notifier) eventChannel() <-chan fsnotify.Event {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Events
}

func (n *notifier) errorChannel() <-chan error {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Errors
}

func (n *notifier) closeUnlessOK(ok bool) {
	if !ok {
		n.close()
	}
}

func (n *notifier) close() {
	if n.watcher != nil {
		n.watcher.Close()
		n.watcher = nil
	}
}

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

// Run watches until ctx ends. It polls an app when the file system notifies of a
// change in it, and all apps from time to time in any case: a notice is only a
// hint that makes things faster. A watcher that is not available or breaks down
// is made again; until then, polling goes on. When Run returns, nothing is
// loaded or published any more.
func (w *Watch) Run(ctx context.Context) error {
	defer w.stopPolls()
	every := time.NewTicker(w.opts.Poll)
	defer every.Stop()
	settle, armed, all := time.NewTimer(0), true, true
	defer settle.Stop()
	n := &notifier{watch: w}
	defer n.close()
	n.updateWatches()
	// A notice does not move a poll that is due: steady writes delay nothing.
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
			n.logWatcherError(err)
			all = true
		case <-settle.C:
			armed = false
		case <-every.C:
			all = true
		}
		w.reportDiscovery(w.pollDue(all))
		all = false
		// What happened in a folder before it was watched made no event.
		if n.updateWatches() {
			all = true
			arm()
		}
	}
}

// reportDiscovery logs, once, that the folders cannot be read, and that they can
// again.
func (w *Watch) reportDiscovery(err error) {
	previous := w.discoverErr
	w.discoverErr = ""
	if err != nil {
		w.discoverErr = err.Error()
	}
	switch {
	case w.discoverErr == previous:
	case err != nil:
		w.opts.Logger.Error("cannot look for apps: those that serve go on", "error", err)
	default:
		w.opts.Logger.Info("can look for apps again")
	}
}

// notifier is a file watcher that may be missing.
type notifier struct {
	watch   *Watch
	watcher *fsnotify.Watcher
	// appByDir are the apps of the folders that are watched, "" where it is none.
	appByDir map[string]string
	// fallbackReason is why changes are found by looking alone.
	fallbackReason string
}

// updateWatches watches exactly the folders in which a change can matter. Those that
// are watched are added again: another folder may stand under the path by now.
// It returns whether there is one that was not watched before.
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
			_ = n.watcher.Remove(dir) // fails when the folder went away, which is as good
		}
	}
	var failure error
	for _, dir := range slices.Sorted(maps.Keys(n.appByDir)) {
		err := n.watcher.Add(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went away meanwhile
		case err != nil:
			failure = err
		default:
			more = more || !before[dir]
		}
	}
	n.reportFallback(failure)
	return more
}

// markChangedApp makes the app due that a change is in. It is false when that is not
// known.
func (n *notifier) markChangedApp(event fsnotify.Event, ok bool) bool {
	app := n.appByDir[filepath.Dir(event.Name)]
	// An app's own folder is watched for what replaces it too.
	if !ok || app == "" || n.appByDir[event.Name] != "" {
		return false
	}
	n.watch.setDue(app)
	return true
}

// reportFallback tells, once, that changes are found by looking alone, and that they are
// told of again.
func (n *notifier) reportFallback(err error) {
	previous := n.fallbackReason
	n.fallbackReason = ""
	if err != nil {
		n.fallbackReason = err.Error()
	}
	switch {
	case (n.fallbackReason == "") == (previous == ""):
	case err != nil:
		n.watch.opts.Logger.Warn("the system does not tell of all changes of files: they are found by looking", "every", n.watch.opts.Poll, "error", err)
	default:
		n.watch.opts.Logger.Info("the system tells of changes of files again")
	}
}

// logWatcherError takes an error of the watcher: whatever it was, a look follows. Too many
// changes at once are nothing to tell.
func (n *notifier) logWatcherError(err error) {
	if err != nil && !errors.Is(err, fsnotify.ErrEventOverflow) {
		n.watch.opts.Logger.Warn("the file watcher had an error: looking at all folders", "error", err)
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

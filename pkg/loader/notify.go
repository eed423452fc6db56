package loader

import (
	"context"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Run watches until ctx ends. It looks when the file system tells of a change,
// and from time to time in any case: an event is only a hint that makes things
// faster. A watcher that cannot be had or breaks down is made anew; until then
// the looks go on.
func (w *Watch) Run(ctx context.Context) error {
	poll := time.NewTicker(w.opts.Poll)
	defer poll.Stop()
	settle := time.NewTimer(0)
	defer settle.Stop()
	n := &notifier{watch: w}
	defer n.close()
	n.follow(w.watchedFolders())
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-n.events():
			n.brokenUnless(ok)
			settle.Reset(w.opts.Settle)
			continue
		case err, ok := <-n.errors():
			n.brokenUnless(ok)
			w.opts.Logger.Warn("the file watcher had an error: looking at all folders", "error", err)
		case <-settle.C:
		case <-poll.C:
		}
		again, err := w.look(ctx, false)
		w.blind(err)
		// What happened in a folder before it was watched made no event.
		if n.follow(w.watchedFolders()) || again {
			settle.Reset(w.opts.Settle)
		}
	}
}

// blind tells, once, that the folders cannot be read, and that they can again.
func (w *Watch) blind(err error) {
	said := w.blindness
	w.blindness = ""
	if err != nil {
		w.blindness = err.Error()
	}
	switch {
	case w.blindness == said:
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
}

// follow watches exactly these folders. Those that are watched are added again:
// another folder may stand under the path by now. It returns whether there is
// one that was not watched before.
func (n *notifier) follow(dirs []string) (more bool) {
	if n.watcher == nil {
		watcher, err := fsnotify.NewWatcher()
		if err != nil {
			n.watch.opts.Logger.Warn("no file watcher to be had: changes are found by looking", "every", n.watch.opts.Poll, "error", err)
			return false
		}
		n.watcher = watcher
	}
	before := n.watcher.WatchList()
	for _, dir := range before {
		if !slices.Contains(dirs, dir) {
			_ = n.watcher.Remove(dir) // fails when the folder went away, which is as good
		}
	}
	for _, dir := range dirs {
		if err := n.watcher.Add(dir); err != nil {
			n.watch.opts.Logger.Debug("cannot watch a folder: its changes are found by looking", "dir", dir, "error", err)
			continue
		}
		more = more || !slices.Contains(before, dir)
	}
	return more
}

func (n *notifier) events() <-chan fsnotify.Event {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Events
}

func (n *notifier) errors() <-chan error {
	if n.watcher == nil {
		return nil
	}
	return n.watcher.Errors
}

func (n *notifier) brokenUnless(ok bool) {
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

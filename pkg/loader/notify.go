package loader

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"agenthost/internal/safe"
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
	n.follow()
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
			n.hear(err)
		case <-settle.C:
		case <-poll.C:
		}
		again, err := false, error(nil)
		if p := safe.Call(func() { again, err = w.look(ctx, pass{}) }); p != nil {
			p.Log(w.opts.Logger, "looking for changes panicked")
		}
		w.blind(err)
		// What happened in a folder before it was watched made no event.
		if n.follow() || again {
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
	// deafness is why changes are found by looking alone.
	deafness string
}

// follow watches exactly the folders in which a change can matter. Those that
// are watched are added again: another folder may stand under the path by now.
// It returns whether there is one that was not watched before.
func (n *notifier) follow() (more bool) {
	if n.watch.opts.PollOnly {
		return false
	}
	if n.watcher == nil {
		watcher, err := n.watch.opts.Watcher()
		if err != nil {
			n.deaf(err)
			return false
		}
		n.watcher = watcher
	}
	dirs, before := n.watch.watchedFolders(), n.watcher.WatchList()
	for _, dir := range before {
		if !slices.Contains(dirs, dir) {
			_ = n.watcher.Remove(dir) // fails when the folder went away, which is as good
		}
	}
	var failure error
	for _, dir := range dirs {
		err := n.watcher.Add(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went away meanwhile
		case err != nil:
			failure = err
		default:
			more = more || !slices.Contains(before, dir)
		}
	}
	n.deaf(failure)
	return more
}

// deaf tells, once, that changes are found by looking alone, and that they are
// told of again.
func (n *notifier) deaf(err error) {
	said := n.deafness
	n.deafness = ""
	if err != nil {
		n.deafness = err.Error()
	}
	switch {
	case (n.deafness == "") == (said == ""):
	case err != nil:
		n.watch.opts.Logger.Warn("the system does not tell of all changes of files: they are found by looking", "every", n.watch.opts.Poll, "error", err)
	default:
		n.watch.opts.Logger.Info("the system tells of changes of files again")
	}
}

// hear takes an error of the watcher: whatever it was, a look follows. Too many
// changes at once are nothing to tell.
func (n *notifier) hear(err error) {
	if err != nil && !errors.Is(err, fsnotify.ErrEventOverflow) {
		n.watch.opts.Logger.Warn("the file watcher had an error: looking at all folders", "error", err)
	}
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

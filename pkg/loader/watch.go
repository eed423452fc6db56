package loader

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// A Host is what a [Watch] publishes apps to; *runtime.Host is one.
type Host interface {
	Swap(app *runtime.App)
	Remove(name string)
}

// A Watch keeps a host's apps as the folders say. A change is taken when two
// looks, a short while apart, see the same content; then the app is loaded,
// and swapped in when nothing is wrong with it. A broken app changes nothing:
// the last good one serves on, and the problems stand in its [Status]. Many
// goroutines may use a Watch.
type Watch struct {
	loader *Loader
	host   Host
	dirs   []string
	opts   WatchOptions

	// blindness is why the folders cannot be read; only Run uses it.
	blindness string

	// saving is held while somebody writes files through the watch.
	saving sync.Mutex

	mu   sync.Mutex // serialises looks and loads
	apps map[string]*watched

	statusMu sync.RWMutex
	status   map[string]Status

	journal *journal
}

// WatchOptions are what a watch may be given. The zero value works.
type WatchOptions struct {
	// Settle is how long content must stay the same; zero is 100 ms.
	Settle time.Duration
	// Poll is how often folders are looked at when nothing tells of a change;
	// zero is 2 s.
	Poll time.Duration
	// PollOnly has nothing but the looks find changes: some file systems tell of
	// none, or of a part.
	PollOnly bool
	// Watcher makes what tells of changes; nil is fsnotify's own.
	Watcher func() (*fsnotify.Watcher, error)
	// Absence is how long a folder must be missing for its app to end; zero is
	// 2 s. It may come back.
	Absence time.Duration
	// Revisions keeps every revision before it serves; nil keeps none.
	Revisions *store.Revisions
	// Clock tells the time; nil is time.Now.
	Clock func() time.Time
	// Logger is told of every load; nil is silent.
	Logger *slog.Logger
	// Gate is asked before an app is let in; nil is [Loader.Gate].
	Gate Gate
	// Problems gets the problems of every load as text for people, with source
	// lines and carets; nil drops them.
	Problems io.Writer
	// Tests reads the tests beside an app too: files that they read elsewhere are
	// watched, and their problems are the app's.
	Tests bool
	// Told is told what came of every load, one after the other; nil is told
	// nothing.
	Told func(Status)
}

// A Status is what a watch knows of an app.
type Status struct {
	App string
	Dir string
	// Revision is the one that serves; empty when none ever could.
	Revision string
	// OK says whether the folder's content is what serves.
	OK bool
	// Waiting is the revision of the folder's content where the app wants to be
	// told before it serves; empty when none waits.
	Waiting string
	// Diagnostics are the problems of the folder's content, warnings too.
	Diagnostics spec.Diagnostics
	// Loaded is when the content was last looked at by the loader, Good when that
	// went well for the last time.
	Loaded, Good time.Time
	// Loads counts how often it was looked at, Failed how often that went wrong.
	Loads, Failed int
}

// Problems are the diagnostics for those who do not see this machine: files are
// named with the app, and not with where its folder lies.
func (s Status) Problems() spec.Diagnostics { return belowApps(s.Dir, s.Diagnostics) }

// watched is one app's folder between looks.
type watched struct {
	dir     string
	tree    tree
	outside []string // files elsewhere that the app was loaded from
	loaded  string   // the content that was loaded last
	// pending is the content seen at the last look, not loaded yet; since is when
	// it was seen first.
	pending string
	since   time.Time
	// gone is since when the folder is missing; zero when it is there.
	gone   time.Time
	recall recall
	// manual says that the app that serves wants to be told of a change.
	manual bool
	// serves are the files of the revision that serves.
	serves map[string][]byte
}

// A pass is what a look is for.
type pass struct {
	// atOnce takes what is there for settled.
	atOnce bool
	// letIn is somebody's word that apps which wait for it may serve, and that
	// those which are missing are to end.
	letIn bool
}

// NewWatch makes a watch over folders: folders of apps, or apps themselves.
func NewWatch(l *Loader, host Host, dirs []string, opts *WatchOptions) *Watch {
	w := &Watch{loader: l, host: host, dirs: dirs, apps: map[string]*watched{}, status: map[string]Status{}, journal: newJournal()}
	if opts != nil {
		w.opts = *opts
	}
	w.opts.Settle = cmp.Or(w.opts.Settle, 100*time.Millisecond)
	w.opts.Poll = cmp.Or(w.opts.Poll, 2*time.Second)
	w.opts.Absence = cmp.Or(w.opts.Absence, 2*time.Second)
	if w.opts.Watcher == nil {
		w.opts.Watcher = fsnotify.NewWatcher
	}
	if w.opts.Gate == nil {
		w.opts.Gate = l.Gate
	}
	if w.opts.Clock == nil {
		w.opts.Clock = time.Now
	}
	if w.opts.Problems == nil {
		w.opts.Problems = io.Discard
	}
	if w.opts.Told == nil {
		w.opts.Told = func(Status) {}
	}
	if w.opts.Logger == nil {
		w.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return w
}

// Sync loads every app whose content differs from what was loaded, now. It
// fails when a folder cannot be read; apps already there stay.
func (w *Watch) Sync(ctx context.Context) error {
	_, err := w.look(ctx, pass{atOnce: true, letIn: true})
	return err
}

// Reload looks until nothing changes any more, loads what differs, and lets in
// what waited for it. It is for whoever has changed files and wants to know
// what came of it: the statuses tell. It fails when a folder cannot be read.
func (w *Watch) Reload(ctx context.Context) error { return w.settle(ctx, pass{letIn: true}) }

// settle looks until nothing changes any more.
func (w *Watch) settle(ctx context.Context, p pass) error {
	settle := time.NewTimer(0)
	defer settle.Stop()
	for {
		select {
		case <-settle.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		again, err := w.look(ctx, p)
		if err != nil || !again {
			return err
		}
		settle.Reset(w.opts.Settle)
	}
}

// look compares the folders with what was loaded. A difference is loaded when
// it was there at the last look too, or at once where that is asked for. It
// returns whether another look should follow soon.
func (w *Watch) look(ctx context.Context, p pass) (again bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, err := w.discover()
	if err != nil {
		return false, err
	}
	for name := range w.apps {
		if _, ok := found[name]; !ok {
			again = w.miss(name, p) || again
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		a := w.apps[name]
		if a == nil {
			a = &watched{dir: found[name]}
			w.apps[name] = a
		}
		a.dir, a.gone = found[name], time.Time{}
		again = w.compare(ctx, name, p) || again
	}
	return again, nil
}

// discover finds the app folders by name. A name that is taken belongs to the
// folder that was given first.
func (w *Watch) discover() (map[string]string, error) {
	found := map[string]string{}
	for _, dir := range w.dirs {
		apps, err := Discover(dir)
		if err != nil {
			return nil, err
		}
		for _, app := range apps {
			name := AppName(app)
			if other, taken := found[name]; taken && other != app {
				w.opts.Logger.Error("two folders have one app name; the first one serves", "app", name, "first", other, "second", app)
				continue
			}
			found[name] = app
		}
	}
	return found, nil
}

// miss ends an app whose folder has been missing for long enough.
func (w *Watch) miss(name string, p pass) (again bool) {
	a, now := w.apps[name], w.opts.Clock()
	first := a.gone.IsZero()
	if first {
		a.gone = now
	}
	if !p.atOnce && (first || now.Sub(a.gone) < w.opts.Absence && !p.letIn) {
		return true
	}
	w.host.Remove(name)
	delete(w.apps, name)
	was, _ := w.Status(name)
	w.forget(name)
	w.opts.Logger.Info("app removed", "app", name)
	w.journal.add(Report{App: name, Time: now, What: ReportRemoved, From: was.Revision}, nil, nil)
	return false
}

func (w *Watch) compare(ctx context.Context, name string, p pass) (again bool) {
	a := w.apps[name]
	hash, err := a.hash()
	switch {
	case err != nil:
		w.opts.Logger.Warn("cannot read an app's folder: what was loaded serves on", "app", name, "error", err)
		return false
	case hash == a.loaded && !(p.letIn && w.waits(name)):
		a.pending = ""
		return false
	case hash == a.loaded || p.atOnce:
	case hash != a.pending:
		a.pending, a.since = hash, w.opts.Clock()
		return true
	case w.opts.Clock().Sub(a.since) < w.opts.Settle:
		return true // somebody else has looked just now
	}
	before := a.outside
	got := w.loader.loadSafely(ctx, a.dir, &a.recall, w.readTests())
	// What was read in the middle of a change is not what was seen twice.
	if now, err := a.hash(); !p.atOnce && (err != nil || now != hash) {
		if got.app != nil {
			got.app.Close()
		}
		a.pending, a.since = now, w.opts.Clock()
		return true
	}
	if a.outside = got.outside; !slices.Equal(before, a.outside) {
		if hash, err = a.hash(); err != nil {
			hash = ""
		}
	}
	a.loaded, a.pending = hash, ""
	w.take(ctx, a, outcome{name, got}, p)
	return false
}

// readTests is how the tests beside an app are read; nil does not read them.
func (w *Watch) readTests() func(*job, context.Context, *placed) *Suite {
	if w.opts.Tests {
		return (*job).readTests
	}
	return nil
}

// hash is that of the folder, and of the files elsewhere.
func (a *watched) hash() (string, error) {
	hash, err := a.tree.hash(a.dir, time.Now())
	return hash + hashFiles(a.outside), err
}

// watchedFolders are all folders in which a change can matter: those of apps,
// and those that become an app when a file is put there.
func (w *Watch) watchedFolders() []string {
	var all []string
	for _, dir := range w.dirs {
		all = append(all, filepath.Clean(dir))
		apps, err := Discover(dir)
		if err != nil {
			continue
		}
		for _, app := range apps {
			all = append(all, folders(app)...)
		}
		all = append(all, candidates(dir)...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(dir string) bool {
		info, err := os.Stat(dir)
		return err != nil || !info.IsDir()
	})
}

func candidates(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil || isApp(dir) {
		return nil
	}
	var all []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			all = append(all, filepath.Join(dir, e.Name()))
		}
	}
	return all
}

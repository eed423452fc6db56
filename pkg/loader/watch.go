package loader

import (
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

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
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

	mu   sync.Mutex // serialises looks and loads
	apps map[string]*watched

	statusMu sync.RWMutex
	status   map[string]Status
}

// WatchOptions are what a watch may be given. The zero value works.
type WatchOptions struct {
	// Settle is how long content must stay the same; zero is 100 ms.
	Settle time.Duration
	// Poll is how often folders are looked at when nothing tells of a change;
	// zero is 2 s.
	Poll time.Duration
	// Clock is for the times of a status; nil is time.Now.
	Clock func() time.Time
	// Logger is told of every load; nil is silent.
	Logger *slog.Logger
	// Gate is asked before an app is let in; nil is [Loader.Gate].
	Gate Gate
	// Problems gets the problems of every load as text for people, with source
	// lines and carets; nil drops them.
	Problems io.Writer
}

// A Status is what a watch knows of an app.
type Status struct {
	App string
	Dir string
	// Revision is the one that serves; empty when none ever could.
	Revision string
	// OK says whether the folder's content is what serves.
	OK bool
	// Diagnostics are the problems of the folder's content, warnings too.
	Diagnostics spec.Diagnostics
	// Loaded is when the content was last looked at by the loader.
	Loaded time.Time
}

// watched is one app's folder between looks.
type watched struct {
	dir     string
	tree    tree
	loaded  string   // the content that was loaded last
	pending string   // the content seen at the last look, not loaded yet
	gone    bool     // the folder was missing at the last look
	outside []string // files elsewhere that the app was loaded from
}

// NewWatch makes a watch over folders: folders of apps, or apps themselves.
func NewWatch(l *Loader, host Host, dirs []string, opts *WatchOptions) *Watch {
	if opts == nil {
		opts = &WatchOptions{}
	}
	w := &Watch{loader: l, host: host, dirs: dirs, opts: *opts, apps: map[string]*watched{}, status: map[string]Status{}}
	if w.opts.Settle == 0 {
		w.opts.Settle = 100 * time.Millisecond
	}
	if w.opts.Poll == 0 {
		w.opts.Poll = 2 * time.Second
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
	if w.opts.Logger == nil {
		w.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return w
}

// Status returns what is known of an app, and whether there is such an app.
func (w *Watch) Status(app string) (Status, bool) {
	w.statusMu.RLock()
	defer w.statusMu.RUnlock()
	s, ok := w.status[app]
	return s, ok
}

// Statuses returns what is known of every app, sorted by name.
func (w *Watch) Statuses() []Status {
	w.statusMu.RLock()
	defer w.statusMu.RUnlock()
	return slices.SortedFunc(maps.Values(w.status), func(a, b Status) int { return strings.Compare(a.App, b.App) })
}

// Diagnostics returns the problems of an app's folder as it was last loaded.
func (w *Watch) Diagnostics(app string) spec.Diagnostics {
	s, _ := w.Status(app)
	return s.Diagnostics
}

// Sync loads every app whose content differs from what was loaded, now. It
// fails when a folder cannot be read; apps already there stay.
func (w *Watch) Sync(ctx context.Context) error {
	_, err := w.look(ctx, true)
	return err
}

// Reload loads one app again, changed or not, and returns its problems.
func (w *Watch) Reload(ctx context.Context, app string) spec.Diagnostics {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, ok := w.apps[app]; ok {
		w.load(ctx, app, a)
	}
	return w.Diagnostics(app)
}

// look compares the folders with what was loaded. At once loads what differs;
// else a difference is loaded when it was there at the last look too. It
// returns whether another look should follow soon.
func (w *Watch) look(ctx context.Context, atOnce bool) (again bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found, err := w.discover()
	if err != nil {
		return false, err
	}
	for name := range w.apps {
		if _, ok := found[name]; !ok {
			again = w.miss(name, atOnce) || again
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		a := w.apps[name]
		if a == nil {
			a = &watched{dir: found[name]}
			w.apps[name] = a
		}
		a.dir, a.gone = found[name], false
		again = w.compare(ctx, name, a, atOnce) || again
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

func (w *Watch) miss(name string, atOnce bool) (again bool) {
	a := w.apps[name]
	if !a.gone && !atOnce {
		a.gone = true
		return true
	}
	w.host.Remove(name)
	delete(w.apps, name)
	w.statusMu.Lock()
	delete(w.status, name)
	w.statusMu.Unlock()
	w.opts.Logger.Info("app removed", "app", name)
	return false
}

func (w *Watch) compare(ctx context.Context, name string, a *watched, atOnce bool) (again bool) {
	hash, err := a.tree.hash(a.dir, time.Now())
	folder := hash
	hash += hashFiles(a.outside)
	switch {
	case err != nil:
		w.opts.Logger.Warn("cannot read an app's folder: what was loaded serves on", "app", name, "error", err)
		return false
	case hash == a.loaded:
		a.pending = ""
		return false
	case !atOnce && hash != a.pending:
		a.pending = hash
		return true
	}
	a.loaded, a.pending = hash, ""
	before := a.outside
	w.load(ctx, name, a)
	if !slices.Equal(before, a.outside) {
		a.loaded = folder + hashFiles(a.outside)
	}
	return false
}

// load builds an app and swaps it in, or keeps the one that serves.
func (w *Watch) load(ctx context.Context, name string, a *watched) {
	app, ds := w.admit(ctx, a)
	old, _ := w.Status(name)
	s := Status{App: name, Dir: a.dir, Revision: old.Revision, OK: app != nil, Diagnostics: ds, Loaded: w.opts.Clock()}
	switch {
	case app == nil:
		w.refused(name, s)
	case app.Revision == old.Revision:
		app.Close()
	default:
		s.Revision = app.Revision
		w.host.Swap(app)
		w.opts.Logger.Info("app loaded", "app", name, "revision", app.Revision, "warnings", len(ds))
	}
	if err := ds.WriteText(w.opts.Problems); err != nil {
		w.opts.Logger.Warn("cannot print the problems of an app", "app", name, "error", err)
	}
	w.statusMu.Lock()
	w.status[name] = s
	w.statusMu.Unlock()
}

// admit loads an app and puts it before the gate. It is nil when it must not
// serve.
func (w *Watch) admit(ctx context.Context, a *watched) (*runtime.App, spec.Diagnostics) {
	got := w.loader.load(ctx, a.dir, nil)
	app, ds := got.app, got.ds
	a.outside = got.outside
	if app == nil {
		return nil, ds
	}
	ds = append(ds, w.opts.Gate(ctx, a.dir, app)...)
	ds.Sort()
	if ds.HasErrors() {
		app.Close()
		return nil, ds
	}
	return app, ds
}

func (w *Watch) refused(name string, s Status) {
	what := "the app has problems and does not serve"
	if s.Revision != "" {
		what = "the app has problems: the last good revision serves on"
	}
	w.opts.Logger.Error(what, "app", name, "revision", s.Revision, "problems", len(s.Diagnostics))
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

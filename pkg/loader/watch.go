package loader

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// A Watch keeps a host's apps as the folders say. A change is loaded when two
// polls, a short while apart, see the same content, and published when nothing
// is wrong with it. A broken app changes nothing: the last good revision keeps
// serving, and the problems are in its [Status]. Each app is polled, loaded and
// gated by itself, so that a slow one delays no other. Many goroutines may use
// a Watch.
type Watch struct {
	loader *Loader
	host   Host
	dirs   []string
	opts   WatchOptions

	// discoverErr is why the folders cannot be read; only Run uses it.
	discoverErr string

	// saveMu is held while somebody writes files through the watch.
	saveMu sync.Mutex

	// pollCtx is the context of polls, which outlive the caller that asked for
	// them. It ends with Run.
	pollCtx     context.Context
	cancelPolls context.CancelFunc
	polls       sync.WaitGroup
	// lanes bound the polls that run at once: cheap apps have one, costly apps
	// the other.
	cheapLane, costlyLane chan struct{}
	// wake tells Run that an app is due; it has room for one notice.
	wake chan struct{}

	mu   sync.Mutex // guards apps, due and the folders of apps
	apps map[string]*watchedApp
	due  map[string]bool

	// reportMu is held while a result is reported: one after the other.
	reportMu sync.Mutex
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
	// MaxWait is how long Sync and Reload wait for one app; zero is 10 s. An app
	// that takes longer goes on loading.
	MaxWait time.Duration
	// Problems gets the problems of every load as text for people, with source
	// lines and carets; nil drops them.
	Problems io.Writer
	// Tests reads the tests beside an app too: files that they read elsewhere are
	// watched, and their problems are the app's.
	Tests bool
	// OnLoad is told what came of every load, one after the other; nil is told
	// nothing.
	OnLoad func(Status)
}

// A Status is what a watch knows of an app.
type Status struct {
	App string
	Dir string
	// Revision is the one that serves; empty when none ever could.
	Revision string
	// OK says whether the folder's content is what serves.
	OK bool
	// PendingRevision is the revision of the folder's content where the app wants to be
	// told before it serves; empty when none waits.
	PendingRevision string
	// Loading says that the folder's content has been loading, or passing its
	// gate, for longer than Sync and Reload wait for it.
	Loading bool
	// Diagnostics are the problems of the folder's content, warnings too.
	Diagnostics spec.Diagnostics
	// Loaded is when the content was last looked at by the loader, Good when that
	// went well for the last time.
	Loaded, LastGood time.Time
	// LoadCount counts how often it was looked at, Failed how often that went wrong.
	LoadCount, FailedCount int
}

// Problems are the diagnostics for those who do not see this machine: files are
// named with the app, and not with where its folder lies.
func (s Status) Problems() spec.Diagnostics { return relativeToApps(s.Dir, s.Diagnostics) }

// watchedApp is one app's folder between polls.
type watchedApp struct {
	name string
	// busy is held by the poll of the app that runs, or by who polls it until it
	// is settled. It guards all below but folders, missed and cost.
	busy chan struct{}

	dir           string
	tree          folderHasher
	outsideFiles  []string // files elsewhere that the app was loaded from
	loadedHash    string   // the content that was loaded last
	attemptedHash string   // the content of the last load, also of one that panicked
	// pendingHash is the content seen at the last poll, not loaded yet; since is when
	// it was seen first.
	pendingHash  string
	pendingSince time.Time
	// missingSince is since when the folder is missing; zero when it is there.
	missingSince time.Time
	cache        loadCache
	// manualReload says that the app that serves wants to be told of a change.
	manualReload bool
	// servingFiles are the files of the revision that serves.
	servingFiles map[string][]byte

	folders []string // those to watch; guarded by Watch.mu
	// missed says that the app was busy when it was due.
	missed atomic.Bool
	// pollCost is how long polls took of late, in nanoseconds; rested is when Run may
	// start the next one, in nanoseconds of the Unix time.
	pollCost, nextPollAt atomic.Int64
}

// A pass is what a poll is for.
type pollMode struct {
	// immediate takes what is there for settled.
	immediate bool
	// requested is somebody's word that apps which wait for it may serve, and that
	// those which are missing are to end.
	requested bool
}

// NewWatch makes a watch over folders: folders of apps, or apps themselves.
func NewWatch(l *Loader, host Host, dirs []string, opts *WatchOptions) *Watch {
	w := &Watch{
		loader: l, host: host, dirs: dirs, apps: map[string]*watchedApp{}, due: map[string]bool{}, status: map[string]Status{}, journal: newJournal(),
		cheapLane: make(chan struct{}, max(2, goruntime.GOMAXPROCS(0))), costlyLane: make(chan struct{}, 2), wake: make(chan struct{}, 1),
	}
	w.pollCtx, w.cancelPolls = context.WithCancel(context.Background())
	if opts != nil {
		w.opts = *opts
	}
	w.opts.Settle = cmp.Or(w.opts.Settle, 100*time.Millisecond)
	w.opts.Poll = cmp.Or(w.opts.Poll, 2*time.Second)
	w.opts.Absence = cmp.Or(w.opts.Absence, 2*time.Second)
	w.opts.MaxWait = cmp.Or(w.opts.MaxWait, 10*time.Second)
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
	if w.opts.OnLoad == nil {
		w.opts.OnLoad = func(Status) {}
	}
	if w.opts.Logger == nil {
		w.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return w
}

// Sync loads every app whose content differs from what was loaded, now. It
// fails when a folder cannot be read; apps already there stay. It does not wait
// for an app that takes longer than the patience of the watch.
func (w *Watch) Sync(ctx context.Context) error {
	_, err := w.pollAll(ctx, pollMode{immediate: true, requested: true})
	return err
}

// Reload polls each app until it changes no more, loads what differs, and lets
// in what waited for it. It is for whoever has changed files and wants to know
// what came of it: see the statuses. It fails when a folder cannot be read, and
// waits no longer than the patience of the watch, and 30 s for all apps: one
// that takes longer goes on, and its status says Loading.
func (w *Watch) Reload(ctx context.Context) error {
	return w.pollUntilSettled(ctx, pollMode{requested: true}, nil)
}

// discoverApps finds the app folders by name. A name that is taken belongs to the
// folder that was given first.
func (w *Watch) discoverApps() (map[string]string, error) {
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

// removeIfAbsent ends an app whose folder has been missing for long enough.
func (w *Watch) removeIfAbsent(a *watchedApp, p pollMode) (again bool) {
	now := w.opts.Clock()
	first := a.missingSince.IsZero()
	if first {
		a.missingSince = now
	}
	if !p.immediate && (first || now.Sub(a.missingSince) < w.opts.Absence && !p.requested) {
		return true
	}
	w.host.Remove(a.name)
	a.loadedHash, a.pendingHash = "", ""
	w.mu.Lock()
	delete(w.apps, a.name)
	w.mu.Unlock()
	w.reportMu.Lock()
	defer w.reportMu.Unlock()
	was, _ := w.Status(a.name)
	w.deleteStatus(a.name)
	w.opts.Logger.Info("app removed", "app", a.name)
	w.journal.appendReport(Report{App: a.name, Time: now, Kind: ReportRemoved, From: was.Revision}, nil, nil)
	return false
}

// reloadIfChanged compares a folder with what was loaded. A difference is loaded
// when it was there at the last poll too, or at once where that is asked for. It
// returns whether another poll should follow soon.
func (w *Watch) reloadIfChanged(ctx context.Context, a *watchedApp, p pollMode) (again bool) {
	hash, limit, err := w.hashApp(ctx, a)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		w.opts.Logger.Warn("cannot read an app's folder: what was loaded serves on", "app", a.name, "error", err)
		return false
	case hash == a.loadedHash && !(p.requested && w.hasPendingRevision(a.name)):
		a.pendingHash = ""
		return false
	case hash == a.loadedHash || p.immediate:
	case hash != a.pendingHash:
		a.pendingHash, a.pendingSince = hash, w.opts.Clock()
		return true
	case w.opts.Clock().Sub(a.pendingSince) < w.opts.Settle:
		return true // another poll was just now
	}
	a.attemptedHash = hash
	before := a.outsideFiles
	var got loadResult
	if limit != nil {
		got.ds = append(got.ds, limit.toDiagnostic(a.dir))
	} else {
		got = w.loader.loadAppSafely(ctx, a.dir, &a.cache, w.readTests())
	}
	// What was read in the middle of a change is not what was seen twice.
	now, _, err := w.hashApp(ctx, a)
	if ctx.Err() != nil || !p.immediate && (err != nil || now != hash) {
		if got.app != nil {
			got.app.Close()
		}
		a.pendingHash, a.pendingSince = now, w.opts.Clock()
		return ctx.Err() == nil
	}
	if a.outsideFiles = got.outside; !slices.Equal(before, a.outsideFiles) {
		if hash, _, err = w.hashApp(ctx, a); err != nil {
			hash = ""
		}
	}
	a.loadedHash, a.pendingHash = hash, ""
	w.publishResult(ctx, a, got, p)
	return false
}

// readTests is how the tests beside an app are read; nil does not read them.
func (w *Watch) readTests() func(*job, context.Context, *resolvedAgent) *Suite {
	if w.opts.Tests {
		return (*job).readTests
	}
	return nil
}

// hashApp is that of the folder, and of the files elsewhere. A folder beyond the
// limits has the hash of the limit.
func (w *Watch) hashApp(ctx context.Context, a *watchedApp) (string, *limitError, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxLoadTime, folderTooSlow)
	defer cancel()
	began := time.Now()
	hash, err := a.tree.hashFolder(ctx, a.dir, a.outsideFiles)
	now := time.Now()
	if rest := idleFactor * now.Sub(began); rest > w.opts.Settle {
		a.nextPollAt.Store(now.Add(min(rest, w.opts.Poll)).UnixNano())
	}
	w.mu.Lock()
	if !slices.Equal(a.folders, a.tree.folders) {
		a.folders = a.tree.folders
		w.wakeUp() // the new ones are to be watched
	}
	w.mu.Unlock()
	if limit := (*limitError)(nil); errors.As(err, &limit) {
		return limit.message, limit, nil
	}
	return hash, nil, err
}

// watchedFolders are all folders in which a change can matter, with the name of
// their app: those of apps, and those that become an app when a file is put
// there, which have none.
func (w *Watch) watchedFolders() map[string]string {
	all := map[string]string{}
	for _, dir := range w.dirs {
		for _, candidate := range candidateFolders(dir) {
			all[candidate] = ""
		}
	}
	w.mu.Lock()
	for _, a := range w.apps {
		for _, folder := range a.folders {
			all[folder] = a.name
		}
	}
	w.mu.Unlock()
	for _, dir := range w.dirs {
		if dir = filepath.Clean(dir); all[dir] == "" {
			all[dir] = ""
		}
	}
	maps.DeleteFunc(all, func(dir, _ string) bool {
		info, err := os.Stat(dir)
		return err != nil || !info.IsDir()
	})
	return all
}

func candidateFolders(dir string) []string {
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

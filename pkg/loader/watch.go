package loader

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// A Host receives the apps that a [Watch] publishes; *runtime.Host implements it.
type Host interface {
	Swap(app *runtime.App)
	Remove(name string)
}

// A Watch keeps a host's apps up to date with their folders. It loads a change when two successive
// polls see the same content, and publishes it if there are no errors. If there are, the last good
// revision keeps serving, and [Status] has the problems. Each app is polled, loaded and gated
// independently, so that a slow app does not delay others. A Watch is safe for concurrent use.
type Watch struct {
	loader *Loader
	host   Host
	opts   WatchOptions

	// discoverMu serializes discoveries. It guards the folder listings.
	discoverMu sync.Mutex
	folders    []*watchedFolder

	// saveMu is held while files are written through the watch.
	saveMu sync.Mutex

	// pollCtx is the polls' context. Polls outlive the caller that requested them. It is canceled
	// when Run returns.
	pollCtx     context.Context
	cancelPolls context.CancelFunc
	polls       sync.WaitGroup
	// The lanes limit concurrent polls: one for cheap apps, one for costly apps.
	cheapLane, costlyLane chan struct{}
	// wake notifies Run that an app is due; its capacity is 1.
	wake chan struct{}

	mu   sync.Mutex // guards apps, due and the app folders
	apps map[string]*watchedApp
	due  map[string]bool

	// reportMu serializes result reports.
	reportMu sync.Mutex
	status   statuses
	// folderStatusMu guards the folder statuses.
	folderStatusMu sync.RWMutex

	journal *journal
}

// WatchOptions configure a Watch. The zero value works.
type WatchOptions struct {
	// Settle is how long content must stay unchanged before it is loaded. Default: 100
	// ms.
	Settle time.Duration
	// Poll is the poll interval; polls find what notifications missed. Default: 2 s.
	Poll time.Duration
	// PollOnly disables file notifications, which some file systems do not support.
	PollOnly bool
	// Watcher creates the file watcher. Default: fsnotify.NewWatcher.
	Watcher func() (*fsnotify.Watcher, error)
	// Absence is how long a folder must be missing before its app is removed. Default: 2
	// s. The app may come back.
	Absence time.Duration
	// Revisions stores every revision before it serves; nil disables it.
	Revisions *store.Revisions
	// Clock returns the current time. Default: time.Now.
	Clock func() time.Time
	// Logger logs every load; nil disables it.
	Logger *slog.Logger
	// Store has the sessions for gates that read them; nil has none.
	Store *store.Store
	// Gate decides whether an app is published. Default: [Loader.RunGate], without the evals for a
	// revision that Revisions has. A newer save ends its context.
	Gate GateFunc
	// Admit decides whether an app that has passed the gate serves; nil publishes each one. Reconsider
	// makes it decide again about a held app.
	Admit AdmitFunc
	// MaxWait is how long Sync and Reload wait for one app. Default: 10 s. A load that takes longer
	// continues in the background.
	MaxWait time.Duration
	// Problems receives every load's diagnostics as text, with source lines and carets; nil
	// discards them.
	Problems io.Writer
	// Tests also reads the apps' tests. Files that they read elsewhere are watched, and their
	// problems are the app's problems.
	Tests bool
	// OnLoad, if set, is called after every load, serially.
	OnLoad func(Status)

	// list lists a folder; tests replace it with one for a file system that fails.
	list func(dir string) folderListing
}

// A GateFunc checks a changed app before it replaces the running revision. If the
// returned problems include an error, the previous revision stays active.
type GateFunc func(ctx context.Context, dir string, app *runtime.App) spec.Diagnostics

// watchedApp is one app folder's state between polls.
type watchedApp struct {
	name string
	// busy is held by the app's running poll, or by the caller that polls it until it settles. It
	// guards the fields below except folders, missed, reconsider and pollCost.
	busy chan struct{}

	dir           string
	tree          folderHasher
	outsideFiles  []string // outside files that the app depends on
	loadedHash    string   // the content at the last load
	attemptedHash string   // the content at the last attempted load, even if it panicked
	// pendingHash is the content at the last poll, if not yet loaded, and pendingSince
	// the time when it was first seen.
	pendingHash  string
	pendingSince time.Time
	// missingSince is the time since which the folder is missing; zero if it exists.
	missingSince time.Time
	cache        loadCache
	// manualReload reports whether changes to the serving app require a manual reload.
	manualReload bool
	// servingFiles are the serving revision's files.
	servingFiles map[string][]byte
	// readable is the status before the folder became unreadable.
	readable Status

	// folder is the watch's folder in which the app was last found, as foundDir; guarded by
	// Watch.mu.
	folder   *watchedFolder
	foundDir string
	folders  []string // to watch; guarded by Watch.mu
	// missed reports that the app was busy when it was due.
	missed atomic.Bool
	// reconsider reports that Admit must decide again about the held app.
	reconsider atomic.Bool
	// pollCost is how long polls recently took, in nanoseconds. nextPollAt is the earliest time for
	// the next poll, in Unix nanoseconds.
	pollCost, nextPollAt atomic.Int64
}

// A pollMode is a poll's purpose.
type pollMode struct {
	// immediate loads changed content without waiting for it to settle.
	immediate bool
	// requested publishes apps that wait for a manual reload, and removes missing ones.
	requested bool
}

// NewWatch returns a watch over folders: apps, or folders with apps.
func NewWatch(l *Loader, host Host, dirs []string, opts *WatchOptions) *Watch {
	w := &Watch{
		loader: l, host: host, apps: map[string]*watchedApp{}, due: map[string]bool{}, status: statuses{byApp: map[string]Status{}}, journal: newJournal(l.kinds),
		cheapLane: make(chan struct{}, max(2, goruntime.GOMAXPROCS(0))), costlyLane: make(chan struct{}, 2), wake: make(chan struct{}, 1),
	}
	for _, dir := range dirs {
		w.folders = append(w.folders, &watchedFolder{dir: dir, status: FolderStatus{Name: nameFolder(dir)}})
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
		w.opts.Gate = w.gateApp
	}
	if w.opts.list == nil {
		w.opts.list = listFolder
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

// watchedFolders returns all folders in which a change matters, with their apps' names. Folders
// that would become an app with a new file have no name.
func (w *Watch) watchedFolders() map[string]string {
	all := map[string]string{}
	w.discoverMu.Lock()
	unreadable := map[*watchedFolder]bool{}
	for _, f := range w.folders {
		if unreadable[f] = f.listing.err != nil; unreadable[f] {
			continue // the next listing that succeeds watches it again
		}
		for _, candidate := range f.listing.candidates {
			all[candidate] = ""
		}
	}
	w.mu.Lock()
	for _, a := range w.apps {
		for _, folder := range a.folders {
			if !unreadable[a.folder] {
				all[folder] = a.name
			}
		}
	}
	w.mu.Unlock()
	for _, f := range w.folders {
		if dir := filepath.Clean(f.dir); !unreadable[f] && all[dir] == "" {
			all[dir] = ""
		}
	}
	w.discoverMu.Unlock()
	maps.DeleteFunc(all, func(dir, _ string) bool {
		info, err := os.Stat(dir)
		return err != nil || !info.IsDir()
	})
	return all
}

func (w *Watch) wakeUp() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Reports returns the retained reports with a number greater than after, oldest first, and a
// channel that is closed when there are more. A later call to Status is at least as recent.
func (w *Watch) Reports(after int) ([]Report, <-chan struct{}) { return w.journal.reportsAfter(after) }

// Open opens a watched app's folder for reading. The error is [session.ErrNotFound] if the app does
// not exist.
func (w *Watch) Open(app string) (*os.Root, error) {
	s, ok := w.status.getStatus(app)
	if !ok {
		return nil, fmt.Errorf("app %s: %w", app, session.ErrNotFound)
	}
	return os.OpenRoot(s.Dir)
}

// OpenModels builds a watched app's models by their names from its current files; see
// [Loader.OpenModels].
func (w *Watch) OpenModels(ctx context.Context, app string, names []string) (models map[string]model.LLM, release func(), ds spec.Diagnostics) {
	s, ok := w.status.getStatus(app)
	if !ok {
		return nil, nil, spec.Diagnostics{{Rule: "unknown-name", Message: "app not found: " + app}}
	}
	return w.loader.OpenModels(ctx, s.Dir, names)
}

// Status returns an app's status, and whether the app exists.
func (w *Watch) Status(app string) (Status, bool) { return w.status.getStatus(app) }

// Statuses returns all apps' statuses, sorted by name.
func (w *Watch) Statuses() []Status { return w.status.listStatuses() }

// Diagnostics returns the problems with an app's folder at its last load.
func (w *Watch) Diagnostics(app string) spec.Diagnostics {
	s, _ := w.status.getStatus(app)
	return s.Diagnostics
}

// LoadRevision builds an app from the stored files of an earlier revision.
func (w *Watch) LoadRevision(ctx context.Context, app, revision string) (*runtime.App, error) {
	s, ok := w.status.getStatus(app)
	if !ok || w.opts.Revisions == nil {
		return nil, fmt.Errorf("app %s: revisions are not stored: %w", app, session.ErrNotFound)
	}
	rev, err := w.opts.Revisions.Get(ctx, app, revision)
	if err != nil {
		return nil, err
	}
	return w.loader.LoadRevision(ctx, rev, s.Dir)
}

func (w *Watch) logPanic(p *safe.Panic) { p.Log(w.opts.Logger, "watching apps panicked") }

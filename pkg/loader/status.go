package loader

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/spec"
)

// A Status is a watched app's state.
type Status struct {
	App string
	Dir string
	// Revision is the serving revision; empty if there is none.
	Revision string
	// OK reports whether the folder's content is serving.
	OK bool
	// PendingRevision is the revision that waits for a manual reload, or is held; empty if there is
	// none.
	PendingRevision string
	// Held is the reason why [WatchOptions].Admit holds PendingRevision; empty if it does not.
	Held string
	// Unreadable is the reason why the folder cannot be read; empty if it can. Revision
	// keeps serving.
	Unreadable string
	// Loading reports that the folder's content has been loading, or passing the gate, for longer
	// than Sync and Reload wait.
	Loading bool
	// Diagnostics are the problems with the folder's content, including warnings.
	Diagnostics spec.Diagnostics
	// Loaded is when the app was last loaded, LastGood when it was last loaded without errors.
	Loaded, LastGood time.Time
	// LoadCount counts loads, FailedCount failed loads.
	LoadCount, FailedCount int
}

// Problems returns the diagnostics for remote clients: file names are relative to the app, and do
// not reveal where its folder is.
func (s Status) Problems() spec.Diagnostics { return relativeToApps(s.Dir, s.Diagnostics) }

// relativeToApps shortens the paths to files in an app's folder so that they begin with the app's
// name and do not reveal where the folder is. In messages, the folder becomes the app's name, and
// its parent folder's absolute path becomes nothing.
func relativeToApps(dir string, ds spec.Diagnostics) spec.Diagnostics {
	var pairs []string
	if given := formatDir(dir); path.Base(given) == AppName(dir) { // not such as . or ..
		pairs = append(pairs, given+"/", AppName(dir)+"/")
	}
	if full, err := filepath.Abs(dir); err == nil {
		pairs = append(pairs, formatDir(full), AppName(dir), strings.TrimSuffix(formatDir(filepath.Dir(full)), "/")+"/", "")
	}
	hide := strings.NewReplacer(pairs...)
	below := func(at *spec.Pos) {
		if rel, err := filepath.Rel(filepath.Dir(dir), at.File); err == nil && filepath.IsLocal(rel) {
			at.File = filepath.ToSlash(rel)
		}
	}
	named := slices.Clone(ds)
	for i := range named {
		below(&named[i].Pos)
		named[i].Message, named[i].Hint = hide.Replace(named[i].Message), hide.Replace(named[i].Hint)
		named[i].Also = slices.Clone(named[i].Also)
		for k := range named[i].Also {
			below(&named[i].Also[k].Pos)
		}
	}
	return named
}

// statuses are the statuses of a watch's apps. They are safe for concurrent use.
type statuses struct {
	mu    sync.RWMutex
	byApp map[string]Status
}

func (t *statuses) getStatus(app string) (Status, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s, ok := t.byApp[app]
	return s, ok
}

func (t *statuses) putStatus(app string, s Status) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byApp[app] = s
}

func (t *statuses) deleteStatus(app string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.byApp, app)
}

// listStatuses returns all statuses, sorted by name.
func (t *statuses) listStatuses() []Status {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.SortedFunc(maps.Values(t.byApp), func(a, b Status) int { return strings.Compare(a.App, b.App) })
}

// setLoading sets whether a slow app is loading. An app without a status gets one in its folder.
func (t *statuses) setLoading(app, dir string, loading bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.byApp[app]
	switch {
	case ok:
	case !loading || dir == "":
		return
	default:
		s = Status{App: app, Dir: dir}
	}
	s.Loading = loading
	t.byApp[app] = s
}

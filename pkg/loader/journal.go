package loader

import (
	"context"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/store"
)

// maxReports bounds what a watch remembers of its loads.
const maxReports = 64

// A Report tells what came of one change of an app's folder.
type Report struct {
	// Number counts the reports of a watch, from 1.
	Number int
	App    string
	Time   time.Time
	// What is one of the words below.
	What string
	// From is the revision that served before, To the one that serves now or, of
	// an app that waits, is to; empty where there is none.
	From, To string
	// Changes are what agents say otherwise, and Files those that differ; of
	// apps that loaded or wait.
	Changes []Change
	Files   []string
}

// The words of Report.What.
const (
	// ReportLoaded says that the folder's content serves now.
	ReportLoaded = "loaded"
	// ReportRefused says that the content has problems.
	ReportRefused = "refused"
	// ReportWaiting says that the content waits to be let in.
	ReportWaiting = "waiting"
	// ReportMended says that the content is what serves, again.
	ReportMended = "mended"
	// ReportRemoved says that the folder is gone.
	ReportRemoved = "removed"
)

// Reports returns what was told after the report of a number, the oldest first,
// as far as it is remembered, and a channel that closes when there is more.
// Statuses that are asked for later are at least as new.
func (w *Watch) Reports(after int) ([]Report, <-chan struct{}) { return w.journal.after(after) }

// A journal keeps the last reports. Who writes never waits for who reads.
type journal struct {
	mu    sync.Mutex
	count int
	last  []Report
	more  chan struct{}
}

func newJournal() *journal { return &journal{more: make(chan struct{})} }

func (j *journal) add(r Report) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	r.Number = j.count
	j.last = append(j.last, r)
	if over := len(j.last) - maxReports; over > 0 {
		j.last = slices.Delete(j.last, 0, over)
	}
	close(j.more)
	j.more = make(chan struct{})
}

func (j *journal) after(n int) ([]Report, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at := slices.IndexFunc(j.last, func(r Report) bool { return r.Number > n })
	if at < 0 {
		return nil, j.more
	}
	return slices.Clone(j.last[at:]), j.more
}

// tell reports what made one status of another, unless they say the same. The
// status stands before it is told of.
func (w *Watch) tell(ctx context.Context, a *watched, o outcome, old, now Status) {
	r := Report{App: now.App, Time: now.Loaded, From: old.Revision, To: now.Revision}
	switch {
	case now.OK && now.Revision != old.Revision:
		r.What = ReportLoaded
	case now.OK && !old.OK:
		r.What = ReportMended
	case now.Waiting != "" && now.Waiting != old.Waiting:
		r.What, r.To = ReportWaiting, now.Waiting
	case !now.OK && now.Waiting == "" && (old.OK || !slices.Equal(old.Diagnostics.Strings(), now.Diagnostics.Strings())):
		r.What = ReportRefused
	default:
		return
	}
	if old.Revision != "" && (r.What == ReportLoaded || r.What == ReportWaiting) {
		was, is := &store.Revision{App: r.App, Files: a.serves}, &store.Revision{App: r.App, Files: o.files}
		// A loader of its own: what apps hold open is not lent for reading.
		l := New(nil)
		r.Changes = Compare(l.Sketch(ctx, was), l.Sketch(ctx, is))
		r.Files = ChangedFiles(was.Files, is.Files)
	}
	if r.What == ReportLoaded {
		a.serves = o.files
	}
	w.journal.add(r)
}

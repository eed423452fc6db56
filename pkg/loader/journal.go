package loader

import (
	"context"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/store"
)

// What a watch remembers of its loads: so many reports, and the files of the last
// few, of which it can still say what their agents say otherwise.
const (
	maxReports  = 64
	maxCompared = 8
)

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
	// apps that loaded or wait. Changes are found out when somebody asks for the
	// report; the older ones that nobody has asked for have none.
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
	last  []*entry
	more  chan struct{}
}

// An entry is a report, and what it takes to say what has changed: reading two
// revisions as a whole costs more than a reload of one file.
type entry struct {
	mu      sync.Mutex
	report  Report
	was, is *store.Revision // nil when they were compared, or are forgotten
}

func newJournal() *journal { return &journal{more: make(chan struct{})} }

func (j *journal) add(r Report, was, is *store.Revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	r.Number = j.count
	j.last = append(j.last, &entry{report: r, was: was, is: is})
	if over := len(j.last) - maxReports; over > 0 {
		j.last = slices.Delete(j.last, 0, over)
	}
	if over := len(j.last) - maxCompared; over > 0 {
		j.last[over-1].forget()
	}
	close(j.more)
	j.more = make(chan struct{})
}

func (j *journal) after(n int) ([]Report, <-chan struct{}) {
	j.mu.Lock()
	at := slices.IndexFunc(j.last, func(e *entry) bool { return e.report.Number > n })
	var found []*entry
	if at >= 0 {
		found = slices.Clone(j.last[at:])
	}
	more := j.more
	j.mu.Unlock()
	var all []Report
	for _, e := range found {
		all = append(all, e.whole())
	}
	return all, more
}

// whole is the report with its changes.
func (e *entry) whole() Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.was != nil {
		// A loader of its own: what apps hold open is not lent for reading.
		l, ctx := New(nil), context.Background()
		e.report.Changes = Compare(l.Sketch(ctx, e.was), l.Sketch(ctx, e.is))
		e.was, e.is = nil, nil
	}
	return e.report
}

// forget lets go of the files, which a reader does who is comparing them.
func (e *entry) forget() {
	if e.mu.TryLock() {
		e.was, e.is = nil, nil
		e.mu.Unlock()
	}
}

// tell reports what made one status of another, unless they say the same. The
// status stands before it is told of.
func (w *Watch) tell(a *watched, got loaded, old, now Status) {
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
	var was, is *store.Revision
	if old.Revision != "" && (r.What == ReportLoaded || r.What == ReportWaiting) {
		was, is = &store.Revision{App: r.App, Files: a.serves}, &store.Revision{App: r.App, Files: got.files}
		r.Files = ChangedFiles(was.Files, is.Files)
	}
	if r.What == ReportLoaded {
		a.serves = got.files
	}
	w.journal.add(r, was, is)
}

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
	// ReportRecovered says that the content is what serves, again.
	ReportRecovered = "mended"
	// ReportRemoved says that the folder is gone.
	ReportRemoved = "removed"
)

// Reports returns what was told after the report of a number, the oldest first,
// as far as it is remembered, and a channel that closes when there is more.
// Statuses that are asked for later are at least as new.
func (w *Watch) Reports(after int) ([]Report, <-chan struct{}) { return w.journal.reportsAfter(after) }

// A journal keeps the last reports. Who writes never waits for who reads.
type journal struct {
	mu      sync.Mutex
	count   int
	entries []*journalEntry
	changed chan struct{}
}

// An entry is a report, and what it takes to say what has changed: reading two
// revisions as a whole costs more than a reload of one file.
type journalEntry struct {
	mu            sync.Mutex
	report        Report
	before, after *store.Revision // nil when they were compared, or are forgotten
}

func newJournal() *journal { return &journal{changed: make(chan struct{})} }

func (j *journal) appendReport(r Report, before, after *store.Revision) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.count++
	r.Number = j.count
	j.entries = append(j.entries, &journalEntry{report: r, before: before, after: after})
	if over := len(j.entries) - maxReports; over > 0 {
		j.entries = slices.Delete(j.entries, 0, over)
	}
	if over := len(j.entries) - maxCompared; over > 0 {
		j.entries[over-1].releaseFiles()
	}
	close(j.changed)
	j.changed = make(chan struct{})
}

func (j *journal) reportsAfter(n int) ([]Report, <-chan struct{}) {
	j.mu.Lock()
	at := slices.IndexFunc(j.entries, func(e *journalEntry) bool { return e.report.Number > n })
	var found []*journalEntry
	if at >= 0 {
		found = slices.Clone(j.entries[at:])
	}
	more := j.changed
	j.mu.Unlock()
	var all []Report
	for _, e := range found {
		all = append(all, e.resolveChanges())
	}
	return all, more
}

// resolveChanges is the report with its changes.
func (e *journalEntry) resolveChanges() Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.before != nil {
		// A loader of its own: what apps hold open is not lent for reading.
		l, ctx := New(nil), context.Background()
		e.report.Changes = Compare(l.Summarize(ctx, e.before), l.Summarize(ctx, e.after))
		e.before, e.after = nil, nil
	}
	return e.report
}

// releaseFiles lets go of the files, which a reader does who is comparing them.
func (e *journalEntry) releaseFiles() {
	if e.mu.TryLock() {
		e.before, e.after = nil, nil
		e.mu.Unlock()
	}
}

// recordReport reports what made one status of another, unless they say the same. The
// status stands before it is told of.
func (w *Watch) recordReport(a *watchedApp, got loadResult, old, now Status) {
	r := Report{App: now.App, Time: now.Loaded, From: old.Revision, To: now.Revision}
	switch {
	case now.OK && now.Revision != old.Revision:
		r.What = ReportLoaded
	case now.OK && !old.OK:
		r.What = ReportRecovered
	case now.PendingRevision != "" && now.PendingRevision != old.PendingRevision:
		r.What, r.To = ReportWaiting, now.PendingRevision
	case !now.OK && now.PendingRevision == "" && (old.OK || !slices.Equal(old.Diagnostics.Strings(), now.Diagnostics.Strings())):
		r.What = ReportRefused
	default:
		return
	}
	var before, after *store.Revision
	if old.Revision != "" && (r.What == ReportLoaded || r.What == ReportWaiting) {
		before, after = &store.Revision{App: r.App, Files: a.servingFiles}, &store.Revision{App: r.App, Files: got.files}
		r.Files = ChangedFiles(before.Files, after.Files)
	}
	if r.What == ReportLoaded {
		a.servingFiles = got.files
	}
	w.journal.appendReport(r, before, after)
}

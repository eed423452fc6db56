package loader

import (
	"context"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/store"
)

// A watch keeps maxReports reports. Only the last maxCompared of them keep the files
// that are needed to compute changes.
const (
	maxReports  = 64
	maxCompared = 8
)

// A Report is the result of one change of an app's folder.
type Report struct {
	// Number is the sequence number of the report, from 1.
	Number int
	App    string
	Time   time.Time
	// Kind is one of the constants below.
	Kind string
	// From is the previously active revision; To is the one that is active now or,
	// for ReportWaiting, the pending one. Either may be empty.
	From, To string
	// Changes are the changed fields, and Files the changed files, for ReportLoaded
	// and ReportWaiting. Changes are computed when the report is first read; older
	// reports that were never read have none.
	Changes []Change
	Files   []string
}

// The values of Report.Kind.
const (
	// ReportLoaded means that the folder's content is active now.
	ReportLoaded = "loaded"
	// ReportRefused means that the content has errors.
	ReportRefused = "refused"
	// ReportWaiting means that the content is pending a manual reload.
	ReportWaiting = "waiting"
	// ReportRecovered means that the content matches the active revision again.
	ReportRecovered = "recovered"
	// ReportRemoved means that the folder was removed.
	ReportRemoved = "removed"
)

// Reports returns the retained reports with a number greater than after, oldest
// first, and a channel that is closed when there are more. A later call of Status is
// at least as recent.
func (w *Watch) Reports(after int) ([]Report, <-chan struct{}) { return w.journal.reportsAfter(after) }

// A journal keeps the last reports. Writers never wait for readers.
type journal struct {
	mu      sync.Mutex
	count   int
	entries []*journalEntry
	changed chan struct{}
}

// A journalEntry is a report with the revisions to compute its changes from. They are
// computed lazily: loading two revisions costs more than a reload of one file.
type journalEntry struct {
	mu            sync.Mutex
	report        Report
	before, after *store.Revision // nil once compared or released
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

// resolveChanges returns the report with its changes.
func (e *journalEntry) resolveChanges() Report {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.before != nil {
		// A separate loader: it must not share open resources with running apps.
		l, ctx := New(nil), context.Background()
		e.report.Changes = Compare(l.Summarize(ctx, e.before), l.Summarize(ctx, e.after))
		e.before, e.after = nil, nil
	}
	return e.report
}

// releaseFiles drops the files, unless a reader is comparing them, which drops them
// afterwards.
func (e *journalEntry) releaseFiles() {
	if e.mu.TryLock() {
		e.before, e.after = nil, nil
		e.mu.Unlock()
	}
}

// recordReport appends a report about the change of a status, unless both are
// equivalent. The new status must have been stored before.
func (w *Watch) recordReport(a *watchedApp, got loadResult, old, now Status) {
	r := Report{App: now.App, Time: now.Loaded, From: old.Revision, To: now.Revision}
	switch {
	case now.OK && now.Revision != old.Revision:
		r.Kind = ReportLoaded
	case now.OK && !old.OK:
		r.Kind = ReportRecovered
	case now.PendingRevision != "" && now.PendingRevision != old.PendingRevision:
		r.Kind, r.To = ReportWaiting, now.PendingRevision
	case !now.OK && now.PendingRevision == "" && (old.OK || !slices.Equal(old.Diagnostics.Strings(), now.Diagnostics.Strings())):
		r.Kind = ReportRefused
	default:
		return
	}
	var before, after *store.Revision
	if old.Revision != "" && (r.Kind == ReportLoaded || r.Kind == ReportWaiting) {
		before, after = &store.Revision{App: r.App, Files: a.servingFiles}, &store.Revision{App: r.App, Files: got.files}
		r.Files = ChangedFiles(before.Files, after.Files)
	}
	if r.Kind == ReportLoaded {
		a.servingFiles = got.files
	}
	w.journal.appendReport(r, before, after)
}

// Package revisions compares the revisions of an app: those that the session database keeps with each
// other, and the files on disk with the one that serves. cmd/agenthost prints the comparisons, and the
// routes serve them to the developer page.
package revisions

import (
	"context"
	"unicode/utf8"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// A Comparison is the difference between two revisions. From is empty if there is only one.
type Comparison struct {
	From    string          `json:"from,omitempty"`
	To      string          `json:"to"`
	Changes []loader.Change `json:"changes"`
	Files   []string        `json:"files"`
}

// CompareRevisions lists the changed fields by agent, and the files that differ. Variables are not
// resolved.
func CompareRevisions(ctx context.Context, l *loader.Loader, before, after *store.Revision) Comparison {
	c := Comparison{From: before.ID, To: after.ID, Changes: []loader.Change{}, Files: loader.ChangedFiles(before.Files, after.Files)}
	c.Changes = append(c.Changes, loader.Compare(l.Summarize(ctx, before), l.Summarize(ctx, after))...)
	return c
}

// A Plan describes what serving an app's files would change.
type Plan struct {
	App string `json:"app"`
	Comparison
	// Reach is the reload policy, which selects the sessions that change.
	Reach    runtime.SessionPolicy `json:"reach"`
	Sessions int                   `json:"sessions"`
	Live     int                   `json:"live"`
	// Notes describe how the change takes effect, such as by a rollout; the program adds them.
	Notes []string `json:"notes,omitempty"`
}

// A Planner compares loaded apps with what serves.
type Planner struct {
	Loader *loader.Loader
	Store  *store.Store
	// Serving is the revision that serves; empty is the one that the database served last.
	Serving string
}

// PlanApp compares a loaded app with the revision that serves. It also returns that revision, which is
// nil for a new app. Both are without a comparison if nothing would change.
func (pl *Planner) PlanApp(ctx context.Context, loaded *loader.LoadedApp) (*Plan, *store.Revision, error) {
	after := &store.Revision{App: loaded.App.Name(), ID: loaded.App.Revision(), Files: loaded.Files}
	serving := pl.Serving
	if serving == "" {
		all, err := pl.Store.Revisions.List(ctx, after.App)
		if err != nil {
			return nil, nil, err
		}
		if len(all) > 0 {
			serving = all[0].ID
		}
	}
	p := &Plan{App: after.App, Reach: loaded.App.Reload().Sessions, Comparison: Comparison{To: after.ID, Changes: []loader.Change{}, Files: []string{}}}
	if serving == "" || serving == after.ID {
		p.From = serving
		return p, nil, nil
	}
	before, err := pl.Store.Revisions.Get(ctx, after.App, serving)
	if err != nil {
		return nil, nil, err
	}
	p.Comparison = CompareRevisions(ctx, pl.Loader, before, after)
	return p, before, nil
}

// Limits on the files in a response: a page draws lines, not archives.
const (
	maxFileText  = 128 << 10
	maxFileTexts = 2 << 20
	maxFiles     = 500
)

// A FileChange is a file that differs between two revisions.
type FileChange struct {
	Name string `json:"name"`
	// Kind is added, removed or changed.
	Kind   string `json:"what"`
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	// Omitted is why the texts are missing; empty if they are not.
	Omitted string `json:"omitted,omitempty"`
}

// listFileChanges returns the texts of the files that differ, and how many more there are.
func listFileChanges(names []string, before, after map[string][]byte) (all []FileChange, more int) {
	all = []FileChange{}
	rest := maxFileTexts
	for i, name := range names {
		if i == maxFiles {
			return all, len(names) - i
		}
		was, inBefore := before[name]
		is, inAfter := after[name]
		c := FileChange{Name: name, Kind: loader.Changed}
		switch {
		case !inBefore:
			c.Kind = loader.Added
		case !inAfter:
			c.Kind = loader.Removed
		}
		switch size := len(was) + len(is); {
		case !utf8.Valid(was) || !utf8.Valid(is):
			c.Omitted = "not a text file"
		case len(was) > maxFileText || len(is) > maxFileText:
			c.Omitted = "larger than 128 KiB"
		case size > rest:
			c.Omitted = "the files before this one have 2 MiB"
		default:
			c.Before, c.After = string(was), string(is)
			rest -= size
		}
		all = append(all, c)
	}
	return all, 0
}

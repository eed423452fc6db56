package loader

import (
	"context"
	"fmt"
	"maps"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// A Loaded is an app with the files that it was built from.
type Loaded struct {
	App *runtime.App
	// Files are by path from the app's folder. A .env is not among them: its
	// values are secrets of this machine.
	Files map[string][]byte
}

// Keep puts the app's revision into a store. An event may name it from then on.
func (a *Loaded) Keep(ctx context.Context, revisions *store.Revisions) error {
	return revisions.Put(ctx, &store.Revision{App: a.App.Name, ID: a.App.Revision, Files: a.Files}, a.App.Reload.KeepRevisions)
}

// LoadFiles is [Loader.Load] and the files that were read. Without an app there
// is nothing.
func (l *Loader) LoadFiles(ctx context.Context, dir string) (*Loaded, spec.Diagnostics) {
	src, err := openSource(dir, l.opts.Env)
	if err != nil {
		return nil, noFolder(dir, err)
	}
	defer l.closeSource(src)
	app, ds := l.build(ctx, src)
	if app == nil {
		return nil, ds
	}
	files := maps.Clone(src.read)
	delete(files, dotenvFile)
	return &Loaded{app, files}, ds
}

// LoadRevision builds the app of a revision from its files, with the present
// environment and the .env of the app's folder. The app has the revision's id,
// whatever that environment says by now.
func (l *Loader) LoadRevision(ctx context.Context, rev *store.Revision, dir string) (*runtime.App, error) {
	src := newSource(rev.App, dir, fileSet(rev.Files), l.opts.Env)
	src.known = rev.ID
	if now, err := openSource(dir, l.opts.Env); err == nil {
		src.dotenv = now.dotenv
		l.closeSource(now)
	}
	app, ds := l.build(ctx, src)
	if app == nil {
		return nil, fmt.Errorf("building revision %s of app %s: %w", rev.ID, rev.App, ds.Err())
	}
	return app, nil
}

func (l *Loader) closeSource(src *source) {
	if err := src.close(); err != nil {
		l.opts.Logger.Warn("closing an app's folder", "app", src.name, "error", err)
	}
}

// build is the whole load of a source.
func (l *Loader) build(ctx context.Context, src *source) (*runtime.App, spec.Diagnostics) {
	j := newJob(l, src)
	app := j.run(ctx)
	j.ds.Sort()
	if j.ds.HasErrors() {
		if app != nil {
			app.Close()
		}
		return nil, j.ds
	}
	return app, j.ds
}

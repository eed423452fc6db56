package loader

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"agenthost/internal/safe"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// Load builds the app of a folder. It returns all problems, sorted by position; if
// one of them is an error, the app is nil. Building opens no connections. The caller
// owns the app and must pass it to a host or Close it.
func (l *Loader) Load(ctx context.Context, dir string) (*runtime.App, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, nil)
	return got.app, got.ds
}

// A LoadedApp is an app with the files that it was built from.
type LoadedApp struct {
	App *runtime.App
	// Files are the files by path in the app folder, except .env, which contains secrets
	// of this machine.
	Files map[string][]byte
}

// LoadFiles is like [Loader.Load], but also returns the files. It returns nil if there
// are errors.
func (l *Loader) LoadFiles(ctx context.Context, dir string) (*LoadedApp, spec.Diagnostics) {
	got := l.loadApp(ctx, dir, nil, nil)
	if got.app == nil {
		return nil, got.ds
	}
	return &LoadedApp{got.app, got.files}, got.ds
}

// SaveRevision stores the app's revision, so that events may refer to it.
func (a *LoadedApp) SaveRevision(ctx context.Context, revisions *store.Revisions) error {
	return revisions.Put(ctx, &store.Revision{App: a.App.Name(), ID: a.App.Revision(), Files: a.Files}, a.App.Reload().KeepRevisions)
}

// LoadRevision builds the app of a revision from its files, with the current
// environment and the current .env of the app folder. The app has the ID of the
// revision, whatever the environment.
func (l *Loader) LoadRevision(ctx context.Context, rev *store.Revision, dir string) (*runtime.App, error) {
	src := newSource(rev.App, dir, &l.opts)
	src.storedRevision = rev
	if now, _ := l.openAppFolder(dir); now != nil {
		src.dotenv = now.dotenv
		now.close()
	}
	got := l.loadSource(ctx, src, nil)
	if got.app == nil {
		return nil, fmt.Errorf("building revision %s of app %s: %w", rev.ID, rev.App, got.ds.Err())
	}
	return got.app, nil
}

// loadResult is the result of loading a folder.
type loadResult struct {
	app *runtime.App
	ds  spec.Diagnostics
	// outside are the files outside of the folder that the app depends on.
	outside []string
	// files are those that the app was built from; read are those that were read
	// from the folder, also when there is no app.
	files, read map[string][]byte
}

// loadApp builds the app of a folder with the cache of the previous load, and then calls
// a function that reads its tests; both may be nil.
func (l *Loader) loadApp(ctx context.Context, dir string, r *loadCache, then func(context.Context, *resolver)) loadResult {
	src, ds := l.openAppFolder(dir)
	if src == nil {
		return loadResult{ds: ds}
	}
	defer src.close()
	if src.cache = r; r != nil {
		r.startLoad()
	}
	return l.loadSource(ctx, src, then)
}

// loadAppSafely is loadApp for a running host: a panic becomes a problem of this app
// and does not affect others. In other programs a panic ends the process.
func (l *Loader) loadAppSafely(ctx context.Context, dir string, r *loadCache, then func(context.Context, *resolver)) (got loadResult) {
	p := safe.Call(func() { got = l.loadApp(ctx, dir, r, then) })
	if p == nil {
		return got
	}
	p.Log(l.opts.Logger, "loading an app panicked", "app", AppName(dir))
	return loadResult{ds: spec.Diagnostics{{
		Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "build",
		Message: "loading the app panicked, which is a bug in agenthost: " + p.Error(),
	}}}
}

// loadSource builds the app of an open source.
func (l *Loader) loadSource(ctx context.Context, src *source, then func(context.Context, *resolver)) loadResult {
	src.budget = newLoadBudget(ctx)
	r := newResolver(l, src)
	app := r.loadAndCompile(ctx)
	if then != nil {
		then(ctx, r)
		if r.app.documents = src.roots; !r.ds.HasErrors() {
			r.report(checkSecrets(r.app)...) // of the tests
		}
	}
	if src.budget.exceeded != nil {
		r.report(src.budget.exceeded.toDiagnostic(src.displayDir))
	}
	r.ds = r.collectProblems()
	if r.ds.HasErrors() {
		if app != nil {
			app.Close()
		}
		return loadResult{ds: r.ds, outside: src.outsideFiles, read: src.readFiles}
	}
	return loadResult{app, r.ds, src.outsideFiles, src.revisionFiles(), src.readFiles}
}

// openAppFolder opens an app's folder, or returns the problem.
func (l *Loader) openAppFolder(dir string) (*source, spec.Diagnostics) {
	src, err := openSource(dir, &l.opts)
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "file", Message: "cannot read the app's folder: " + formatOSError(err)}}
	}
	return src, nil
}

// newRevisionResolver returns a resolver of a revision without the environment of its host.
// Variables expand to placeholders.
func (l *Loader) newRevisionResolver(rev *store.Revision, variable func(name string) string) *resolver {
	bare := *l
	bare.opts.Env = func(string) (string, bool) { return "", false }
	bare.opts.MissingKey = nil
	bare.opts.Overlay, bare.opts.Secrets = findOverlayName(rev.Files), ""
	src := newSource(rev.App, "", &bare.opts)
	src.storedRevision, src.placeholder = rev, variable
	return newResolver(&bare, src)
}

// findOverlayName returns the environment of the overlay in a revision's files.
func findOverlayName(files map[string][]byte) string {
	for file := range files {
		if name, ok := strings.CutPrefix(file, "app."); ok && path.Ext(name) == ".yaml" {
			return strings.TrimSuffix(name, ".yaml")
		}
	}
	return ""
}

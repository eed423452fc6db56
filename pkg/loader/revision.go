package loader

import (
	"context"
	"fmt"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// A LoadedApp is an app with the files that it was built from.
type LoadedApp struct {
	App *runtime.App
	// Files are the files by path in the app folder, except .env, which contains secrets
	// of this machine.
	Files map[string][]byte
}

// SaveRevision stores the app's revision, so that events may refer to it.
func (a *LoadedApp) SaveRevision(ctx context.Context, revisions *store.Revisions) error {
	return revisions.Put(ctx, &store.Revision{App: a.App.Name, ID: a.App.Revision, Files: a.Files}, a.App.Reload.KeepRevisions)
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

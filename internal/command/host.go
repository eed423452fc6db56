package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// A storeOpener opens a host's store.
type storeOpener func(ctx context.Context, logger *slog.Logger) (*store.Store, error)

// OpenHost loads a folder's single app into a new host. It prints problems to stderr, as the host
// does with its runs' warnings; if there are errors, it returns an error before it opens the store.
// The caller closes the host, then its store.
func (f *LoadFlags) OpenHost(ctx context.Context, dir string, opts *loader.Options, open storeOpener) (*runtime.Host, string, error) {
	if err := CheckApp(dir); err != nil {
		return nil, "", err
	}
	opts, err := f.LoaderOptions(opts, dir)
	if err != nil {
		return nil, "", err
	}
	logger := NewWarningLogger(f.env.Err)
	opts.Logger = cmp.Or(opts.Logger, logger)
	l := f.env.NewLoader(opts)
	loaded, ds := l.LoadFiles(ctx, dir)
	if err := f.env.WriteDiagnostics(ds); err != nil {
		return nil, "", err
	}
	if loaded == nil {
		return nil, "", &ExitError{ExitProblems, fmt.Errorf("%s has problems", dir)}
	}
	st, err := open(ctx, logger)
	if err != nil {
		loaded.App.Close()
		return nil, "", err
	}
	if !f.StoresNothing {
		err = loaded.SaveRevision(ctx, st.Revisions)
	}
	if err != nil {
		loaded.App.Close()
		return nil, "", FailWith(errors.Join(fmt.Errorf("storing the app's revision: %w", err), st.Close()))
	}
	host := runtime.NewHost(st, &runtime.Options{Observe: f.Observe, Logger: logger, Consents: f.consents, LoadRevision: func(ctx context.Context, app, revision string) (*runtime.App, error) {
		rev, err := st.Revisions.Get(ctx, app, revision)
		if err != nil {
			return nil, err
		}
		return l.LoadRevision(ctx, rev, dir)
	}})
	host.Swap(loaded.App)
	return host, loaded.App.Name(), nil
}

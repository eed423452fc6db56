package command

import (
	"context"
	"fmt"
	"sync"

	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// WatchApp reloads a command's single app when its files are saved, until the function that it returns
// is called. Failing tests do not block a reload, as in a conversation. reloads, which has a buffer,
// receives a value after each reload; it may be nil.
func (env Env) WatchApp(ctx context.Context, host *runtime.Host, dir string, l *loader.Loader, reloads chan<- struct{}) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	w := &appWatcher{env, host, dir, l, reloads}
	var running sync.WaitGroup
	running.Go(func() {
		defer safe.Recover(func(caught *safe.Panic) {
			caught.Log(NewWarningLogger(env.Err), "watching for file changes panicked")
		})
		w.watchFiles(ctx)
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// An appWatcher reloads an app when its files are saved.
type appWatcher struct {
	env     Env
	host    *runtime.Host
	dir     string
	loader  *loader.Loader
	reloads chan<- struct{}
}

func (w *appWatcher) watchFiles(ctx context.Context) {
	passGate := func(context.Context, string, *runtime.App) spec.Diagnostics { return nil }
	watch := loader.NewWatch(w.loader, persistentHost{w.host}, []string{w.dir}, &loader.WatchOptions{
		Revisions: w.host.Store().Revisions, Gate: passGate, OnLoad: w.reportReload,
	})
	if err := watch.Run(ctx); err != nil {
		fmt.Fprintf(w.env.Err, "watching for file changes failed: %s\n", err)
	}
}

func (w *appWatcher) reportReload(s loader.Status) {
	if !s.OK {
		_ = w.env.WriteDiagnostics(s.Diagnostics)
		fmt.Fprintf(w.env.Err, "%s was not reloaded: the previous version stays active\n", s.App)
		return
	}
	select {
	case w.reloads <- struct{}{}:
	default:
	}
}

// persistentHost is a host that keeps its app when the app's folder is deleted.
type persistentHost struct{ *runtime.Host }

// Remove does nothing.
func (persistentHost) Remove(string) {}

// Package agenthost runs agents that are written in YAML in a Go program. It is the front for the
// packages below pkg: [Open] loads the apps in folders, reloads them when their files change and
// runs them; [Host.Serve] serves them over HTTP, as `agenthost serve` does. The other names are
// what a program needs to write its own kinds, callbacks and routes; what they mean is documented
// where they are declared, and docs/embedding.md shows each.
//
//	kinds := agenthost.StandardKinds()
//	kinds.Models = append(kinds.Models, gemini.Kind())
//	host, err := agenthost.Open(ctx, &agenthost.Options{Folders: []string{"apps"}, Kinds: kinds})
//	if err != nil {
//		return err
//	}
//	defer host.Close()
//	for ev, err := range host.Run(ctx, &agenthost.RunRequest{App: "hello", UserID: "ana", SessionID: "s1", CreateSession: true, Message: agenthost.UserText("Hi")}) {
//
// A program that only runs agents built in Go imports pkg/runtime alone and links neither the
// loader nor the server.
package agenthost

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"

	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool/builtin"
	"agenthost/pkg/tool/httptool"
)

// Options configure a host. Only Folders and Kinds are required.
type Options struct {
	// Folders are apps, or folders with apps.
	Folders []string
	// Kinds list what the apps may name, such as [StandardKinds] and the program's own.
	Kinds Kinds
	// Functions are Go functions that the apps may name.
	Functions Functions

	// StoreURL is where sessions, artifacts and revisions are kept: memory: (the default), or a URL
	// with one of StoreSchemes, such as sqlite:///agents.db.
	StoreURL     string
	StoreSchemes []storeurl.Scheme
	// Store replaces StoreURL. The caller closes it after the host.
	Store *store.Store

	// Problems receives app problems as text, with source lines; nil discards them. An app with
	// errors is not served, or is served with its last good files.
	Problems io.Writer
	// Logger receives all parts' logs; nil discards them.
	Logger *slog.Logger

	// Load, Run and Watch are further options for the loader, the runtime and the reloads; nil uses
	// their defaults. The fields above replace theirs.
	Load  *loader.Options
	Run   *runtime.Options
	Watch *loader.WatchOptions
}

// A Host runs the apps in folders, and reloads them when their files change. It is safe for
// concurrent use.
type Host struct {
	*runtime.Host
	watch  *loader.Watch
	logger *slog.Logger
	// stopWatch ends the watch, and watched receives its error.
	stopWatch context.CancelFunc
	watched   chan error
	closeAll  func() error
}

// StandardKinds returns the kinds that need no service: the scripted model and routes between
// models, the built-in and HTTP tools, and all agent classes and plugins. It has no provider: add
// one from a package below wing, such as gemini.Kind.
func StandardKinds() Kinds {
	return Kinds{
		Models:     provider.Kinds(),
		Tools:      slices.Concat(builtin.Kinds(), httptool.Kinds()),
		Builtins:   slices.Concat(builtin.Builtins(), httptool.Builtins()),
		Agents:     loader.AgentKinds(),
		AgentTools: loader.AgentToolKinds(),
		Plugins:    loader.PluginKinds(),
	}
}

// Open opens the store, loads the apps, and reloads them until [Host.Close]. Apps with errors do
// not make Open fail: see [Options.Problems].
func Open(ctx context.Context, opts *Options) (*Host, error) {
	switch {
	case len(opts.Folders) == 0:
		return nil, errors.New("agenthost: Folders is required: apps, or folders of apps")
	case len(opts.Kinds.Agents) == 0:
		return nil, errors.New("agenthost: Kinds has no agents: begin with StandardKinds()")
	}
	h := &Host{logger: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)), watched: make(chan error, 1)}
	st, closeStore := opts.Store, func() error { return nil }
	if st == nil {
		var err error
		if st, err = storeurl.Open(ctx, cmp.Or(opts.StoreURL, "memory:"), &storeurl.Options{Schemes: opts.StoreSchemes}); err != nil {
			return nil, err
		}
		closeStore = st.Close
	}
	load, run, watch := withDefault(opts.Load), withDefault(opts.Run), withDefault(opts.Watch)
	load.Functions, load.Logger = opts.Functions, opts.Logger
	run.Logger = opts.Logger
	run.LoadRevision = func(ctx context.Context, app, revision string) (*runtime.App, error) {
		return h.watch.LoadRevision(ctx, app, revision) // set before the first run
	}
	watch.Logger, watch.Problems, watch.Revisions, watch.Store = opts.Logger, opts.Problems, st.Revisions, st
	h.Host = runtime.NewHost(st, run)
	h.watch = loader.NewWatch(loader.New(opts.Kinds, load), h.Host, opts.Folders, watch)
	h.closeAll = sync.OnceValue(func() error {
		h.stopWatch()
		err := <-h.watched
		h.Host.Close()
		return errors.Join(err, closeStore())
	})
	var watching context.Context
	watching, h.stopWatch = context.WithCancel(context.WithoutCancel(ctx))
	if err := h.watch.Sync(ctx); err != nil {
		h.watched <- nil // it has not started
		return nil, errors.Join(err, h.Close())
	}
	go h.reloadOnChange(watching)
	return h, nil
}

// withDefault copies options; nil is the zero value.
func withDefault[T any](opts *T) *T {
	var copied T
	if opts != nil {
		copied = *opts
	}
	return &copied
}

// reloadOnChange reloads apps until ctx ends.
func (h *Host) reloadOnChange(ctx context.Context) {
	defer safe.Recover(func(p *safe.Panic) {
		p.Log(h.logger, "watching for changes panicked")
		h.watched <- errors.New("watching for changes panicked, see the log")
	})
	h.watched <- h.watch.Run(ctx)
}

// Watch watches the folders, and has each app's status.
func (h *Host) Watch() *loader.Watch { return h.watch }

// Close ends the reloads, removes the apps, and closes the store if Open has opened it. It does not
// wait for running turns: [Host.Serve] does, before it returns. A second call returns the first
// one's error again.
func (h *Host) Close() error { return h.closeAll() }

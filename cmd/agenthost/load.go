package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/pflag"

	"agenthost/pkg/loader"
	"agenthost/pkg/policy"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// loadFlags say how apps are loaded.
type loadFlags struct {
	env, secrets, policy string
	// reserved is what apps may not read or reach, whatever the policy grants.
	reserved policy.Host
	flags    *pflag.FlagSet
}

func (f *loadFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.env, "env", "", "lay app.NAME.yaml over the app.yaml of every app that has one")
	f.flags = flags
	flags.StringVar(&f.policy, "policy", "", "file with the variables, secrets, addresses and programs that are granted to apps (default: the environment, and public and loopback addresses)")
	flags.StringVar(&f.secrets, "secrets", "", "folder of secrets: APP/NAME is a secret of one app, NAME a shared one (default: secrets are variables of the environment)")
}

// overlayName is what may stand between app. and .yaml.
var overlayName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// loaderOptions returns options with what the flags say; nil options are the zero ones.
// A name that no app has an overlay of is a slip; without folders there is no
// telling.
func (f *loadFlags) loaderOptions(opts *loader.Options, dirs ...string) (*loader.Options, error) {
	if opts == nil {
		opts = &loader.Options{}
	}
	opts.Overlay, opts.Secrets = f.env, f.secrets
	if err := f.applyPolicy(opts); err != nil {
		return nil, err
	}
	if f.secrets != "" {
		if info, err := os.Stat(f.secrets); err != nil || !info.IsDir() {
			return nil, failWithf("--secrets %s: there is no such folder", f.secrets)
		}
	}
	if f.env == "" || len(dirs) == 0 {
		return opts, nil
	}
	if !overlayName.MatchString(f.env) {
		return nil, fmt.Errorf("--env %q: write a name of letters, digits, _ and -", f.env)
	}
	for _, dir := range dirs {
		apps, err := loader.Discover(dir)
		if err != nil {
			return nil, failWith(err)
		}
		for _, app := range apps {
			if _, err := os.Stat(filepath.Join(app, loader.OverlayFile(f.env))); err == nil {
				return opts, nil
			}
		}
	}
	return nil, failWithf("--env %s: no app has a file %s", f.env, loader.OverlayFile(f.env))
}

// openHost makes a host with the one app of a folder. Its problems go to stderr;
// with an error among them there is no host, and no store is opened. The host
// and its store are the caller's to close, in this order.
func (f *loadFlags) openHost(ctx context.Context, io stdio, dir string, opts *loader.Options, open storeOpener) (*runtime.Host, string, error) {
	if err := checkApp(dir); err != nil {
		return nil, "", err
	}
	opts, err := f.loaderOptions(opts, dir)
	if err != nil {
		return nil, "", err
	}
	l := loader.New(opts)
	loaded, ds := l.LoadFiles(ctx, dir)
	if err := writeDiagnostics(io, ds); err != nil {
		return nil, "", err
	}
	if loaded == nil {
		return nil, "", &codedError{exitProblems, fmt.Errorf("%s has problems", dir)}
	}
	st, err := open(ctx, nil)
	if err != nil {
		loaded.App.Close()
		return nil, "", err
	}
	if err := loaded.SaveRevision(ctx, st.Revisions); err != nil {
		loaded.App.Close()
		return nil, "", failWith(errors.Join(fmt.Errorf("keeping the app's revision: %w", err), st.Close()))
	}
	host := runtime.NewHost(st, &runtime.Options{LoadRevision: func(ctx context.Context, app, revision string) (*runtime.App, error) {
		rev, err := st.Revisions.Get(ctx, app, revision)
		if err != nil {
			return nil, err
		}
		return l.LoadRevision(ctx, rev, dir)
	}})
	host.Swap(loaded.App)
	return host, loaded.App.Name, nil
}

// storeOpener opens the store of a host.
type storeOpener func(ctx context.Context, logger *slog.Logger) (*store.Store, error)

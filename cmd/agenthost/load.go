package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/spf13/pflag"

	"agenthost/internal/policy"
	"agenthost/pkg/loader"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// loadFlags control how apps are loaded.
type loadFlags struct {
	overlay, secrets, policy, prices, interpreters string
	// maxLLMCalls is only a flag of serve.
	maxLLMCalls int
	// reserved lists what apps may not read or reach, even if the policy grants it.
	reserved policy.Host
	// observe is [runtime.Options.Observe] of the host that openHost opens; it may be nil.
	observe func(runtime.Measurement)
	// storesNothing reports that openHost opens a store that is only read.
	storesNothing bool
	io            stdio
	flags         *pflag.FlagSet
}

func (f *loadFlags) registerFlags(io stdio, flags *pflag.FlagSet) {
	flags.StringVar(&f.overlay, "env", "", "apply the overlay app.NAME.yaml to the app.yaml of every app that has one")
	f.io, f.flags = io, flags
	flags.StringVar(&f.policy, "policy", "", "file that grants variables, secrets, addresses and programs to apps (default: the environment, and public and loopback addresses)")
	flags.StringVar(&f.interpreters, "interpreters", "", "folder with the WebAssembly interpreters of the code executor wasi")
	flags.StringVar(&f.prices, "prices", "", "file with prices and context limits of models in the form of models.dev's api.json, for events, metrics, traces and warnings")
	flags.StringVar(&f.secrets, "secrets", "", "folder with secrets: APP/NAME is a secret of one app, NAME a shared one (default: secrets are environment variables)")
}

// overlayName matches the names that are allowed in app.NAME.yaml.
var overlayName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// loaderOptions applies the flags to options; nil means default options. It rejects an
// overlay name that no app uses; without folders it does not check the name.
func (f *loadFlags) loaderOptions(opts *loader.Options, dirs ...string) (*loader.Options, error) {
	if opts == nil {
		opts = &loader.Options{}
	}
	opts.ProgramHelper = loader.DefaultProgramHelper()
	opts.Overlay, opts.Secrets, opts.Interpreters = f.overlay, f.secrets, f.interpreters
	if err := f.applyPolicy(opts); err != nil {
		return nil, err
	}
	if f.prices != "" {
		prices, err := provider.ReadPriceList(f.prices)
		if err != nil {
			return nil, failWithf("--prices: %w", err)
		}
		opts.Prices = prices
	}
	calls, err := f.defaultLLMCalls()
	if err != nil {
		return nil, err
	}
	opts.MaxLLMCalls = calls
	if f.secrets != "" {
		if info, err := os.Stat(f.secrets); err != nil || !info.IsDir() {
			return nil, failWithf("--secrets %s: folder not found", f.secrets)
		}
	}
	if f.interpreters != "" {
		if info, err := os.Stat(f.interpreters); err != nil || !info.IsDir() {
			return nil, failWithf("--interpreters %s: folder not found", f.interpreters)
		}
	}
	if f.overlay == "" || len(dirs) == 0 {
		return opts, nil
	}
	if !overlayName.MatchString(f.overlay) {
		return nil, fmt.Errorf("--env must contain only letters, digits, _ and -, got %q", f.overlay)
	}
	for _, dir := range dirs {
		apps, err := loader.Discover(dir)
		if err != nil {
			return nil, failWith(err)
		}
		for _, app := range apps {
			if _, err := os.Stat(filepath.Join(app, loader.OverlayFile(f.overlay))); err == nil {
				return opts, nil
			}
		}
	}
	return nil, failWithf("--env %s: no app has a file %s", f.overlay, loader.OverlayFile(f.overlay))
}

// defaultLLMCalls returns the max_llm_calls of apps without their own: of the flag, or else
// of ADK's environment variable. Nil is the built-in default.
func (f *loadFlags) defaultLLMCalls() (*int, error) {
	const variable = "ADK_MAX_LLM_CALLS"
	name, calls := "--max-llm-calls", f.maxLLMCalls
	if !f.flags.Changed("max-llm-calls") {
		text := os.Getenv(variable)
		if text == "" {
			return nil, nil
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%s must be a whole number, such as 500, got %q", variable, text)
		}
		name, calls = variable, n
	}
	if calls >= math.MaxInt32 {
		return nil, fmt.Errorf("%s must be less than %d, got %d; 0 means no limit", name, math.MaxInt32, calls)
	}
	return &calls, nil
}

// openHost loads the single app of a folder into a new host. It prints problems to
// stderr, as the host does with the warnings of its runs; if there are errors, it returns
// an error before it opens the store. The caller closes the host, then its store.
func (f *loadFlags) openHost(ctx context.Context, io stdio, dir string, opts *loader.Options, open storeOpener) (*runtime.Host, string, error) {
	if err := checkApp(dir); err != nil {
		return nil, "", err
	}
	opts, err := f.loaderOptions(opts, dir)
	if err != nil {
		return nil, "", err
	}
	logger := newWarningLogger(io.err)
	opts.Logger = cmp.Or(opts.Logger, logger)
	l := f.io.newLoader(opts)
	loaded, ds := l.LoadFiles(ctx, dir)
	if err := writeDiagnostics(io, ds); err != nil {
		return nil, "", err
	}
	if loaded == nil {
		return nil, "", &codedError{exitProblems, fmt.Errorf("%s has problems", dir)}
	}
	st, err := open(ctx, logger)
	if err != nil {
		loaded.App.Close()
		return nil, "", err
	}
	if !f.storesNothing {
		err = loaded.SaveRevision(ctx, st.Revisions)
	}
	if err != nil {
		loaded.App.Close()
		return nil, "", failWith(errors.Join(fmt.Errorf("storing the app's revision: %w", err), st.Close()))
	}
	var consents runtime.ConsentFinisher
	if opts.Grants != nil {
		consents = opts.Grants
	}
	host := runtime.NewHost(st, &runtime.Options{Observe: f.observe, Logger: logger, Consents: consents, LoadRevision: func(ctx context.Context, app, revision string) (*runtime.App, error) {
		rev, err := st.Revisions.Get(ctx, app, revision)
		if err != nil {
			return nil, err
		}
		return l.LoadRevision(ctx, rev, dir)
	}})
	host.Swap(loaded.App)
	return host, loaded.App.Name(), nil
}

// A storeOpener opens the store of a host.
type storeOpener func(ctx context.Context, logger *slog.Logger) (*store.Store, error)

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// defaultSessionDB is where sessions are kept unless something else is said.
const defaultSessionDB = "sqlite:///data/agenthost.db"

// storeFlags say where sessions, artifacts and memories are kept.
type storeFlags struct {
	sessionDB, artifacts, memory string
	lease                        time.Duration // 0 is the store's own
	limits                       *limitFlags
}

func (f *storeFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.sessionDB, "session-db", defaultSessionDB, "where sessions are kept: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database, mysql://user@host/database or memory:")
	flags.StringVar(&f.artifacts, "artifacts", "", "where artifacts are kept: dir:///folder, gs://bucket/prefix, s3://bucket/prefix or memory: (default: beside the database file, or in data/)")
	flags.StringVar(&f.memory, "memory", "", "where memories are kept: a URL as of --session-db (default: in the session database)")
}

// registerLimits is for verbs that run apps.
func (f *storeFlags) registerLimits(flags *pflag.FlagSet) {
	f.limits = &limitFlags{}
	f.limits.registerFlags(flags)
}

func (f *storeFlags) openStore(ctx context.Context, logger *slog.Logger) (*store.Store, error) {
	opts := &store.Options{Artifacts: f.artifacts, Memory: f.memory, Lease: f.lease, Logger: logger}
	f.limits.applyTo(opts)
	st, err := store.Open(ctx, f.sessionDB, opts)
	if err != nil {
		return nil, failWithf("opening the session database: %w", err)
	}
	return st, nil
}

// A missingDatabase is what a verb does where there is no database file.
type missingDatabase int

const (
	// requireDatabase is for verbs that look at what is stored.
	requireDatabase missingDatabase = iota
	// treatAsEmpty is for verbs that have an answer all the same.
	treatAsEmpty
	// createDatabase is for verbs that store something.
	createDatabase
)

// setupCommand makes a verb that works on a store, with the flags that all of them have.
// The store is closed after it.
func (f *storeFlags) setupCommand(cmd *cobra.Command, missing missingDatabase, run func(ctx context.Context, st *store.Store, args []string) error) *cobra.Command {
	cmd.PreRunE = applyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, err := f.openStoreFor(cmd.Context(), missing)
		if err != nil {
			return err
		}
		defer st.Close()
		return f.addLocation(run(cmd.Context(), st, args))
	}
	f.registerFlags(cmd.Flags())
	return cmd
}

// openStoreFor opens the store, and makes neither a database nor a folder unless the verb
// stores something.
func (f *storeFlags) openStoreFor(ctx context.Context, missing missingDatabase) (*store.Store, error) {
	if missing == createDatabase {
		return f.openStore(ctx, nil)
	}
	opts := &store.Options{Artifacts: f.artifacts, Memory: f.memory, Existing: true}
	f.limits.applyTo(opts)
	st, err := store.Open(ctx, f.sessionDB, opts)
	switch {
	case errors.Is(err, fs.ErrNotExist) && missing == treatAsEmpty:
		return store.Open(ctx, "memory:", nil)
	case errors.Is(err, fs.ErrNotExist):
		return nil, failWithf("no session database at %s: name it with --session-db, or change to the folder that agenthost was run in", f.displayName())
	case err != nil:
		return nil, failWithf("opening the session database: %w", err)
	}
	return st, nil
}

// displayName is the session database for people: the file, or the URL without its password.
func (f *storeFlags) displayName() string {
	_, path, ok := strings.Cut(f.sessionDB, ":///")
	if strings.HasPrefix(f.sessionDB, "sqlite") && ok {
		path, _, _ = strings.Cut(path, "?")
		if abs, err := filepath.Abs(path); err == nil {
			return abs
		}
	}
	return store.Redacted(f.sessionDB)
}

// addLocation adds to an error that something was not found where it was looked for.
func (f *storeFlags) addLocation(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return failWithf("%w in %s", err, f.displayName())
	}
	return err
}

func writeDiagnostics(io stdio, ds spec.Diagnostics) error {
	if err := ds.WriteText(io.err); err != nil {
		return failWith(err)
	}
	return nil
}

// parseState reads k=v pairs; a value that is JSON is taken as such, any other
// as text.
func parseState(pairs []string) (map[string]any, error) {
	state := map[string]any{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--state %q: write KEY=VALUE", p)
		}
		state[k] = parseValue(v)
	}
	return state, nil
}

func parseValue(v string) any {
	m, err := session.DecodeMap([]byte(`{"v":` + v + `}`))
	if err != nil {
		return v
	}
	return m["v"]
}

// readState reads a file with a JSON or YAML mapping.
func readState(file string) (map[string]any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, failWithf("--state-file: %w", err)
	}
	n, ds := spec.Parse(file, b)
	if err := ds.Err(); err != nil {
		return nil, failWithf("--state-file: %w", err)
	}
	state, ok := n.Any().(map[string]any)
	if !ok {
		return nil, failWithf("--state-file %s holds no mapping", file)
	}
	return state, nil
}

func printJSON(io stdio, v any) error {
	enc := json.NewEncoder(io.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return failWith(enc.Encode(v))
}

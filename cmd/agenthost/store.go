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
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/storeurl"
)

// defaultSessionDB is the default of --session-db.
const defaultSessionDB = "sqlite:///data/agenthost.db"

// storeFlags select the stores of sessions, artifacts and memories.
type storeFlags struct {
	sessionDB, artifacts, memory, revisions string
	lease                                   time.Duration // 0 means the default of the store
	limits                                  *limitFlags
}

func (f *storeFlags) registerFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.sessionDB, "session-db", defaultSessionDB, "session database URL: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database, mysql://user@host/database, agentengine://engine or memory:")
	flags.StringVar(&f.artifacts, "artifacts", "", "artifact store URL: dir:///folder, gs://bucket/prefix, s3://bucket/prefix or memory: (default: next to the database file, or in data/)")
	flags.StringVar(&f.memory, "memory", "", "memory store URL: a database in the form of --session-db, agentengine://engine or rag://corpus (default: the session database)")
	flags.StringVar(&f.revisions, "revisions", "", "database URL of revisions and evaluation results when sessions are in agentengine: (default: the memory database)")
}

// registerLimits adds the limits of verbs that run apps.
func (f *storeFlags) registerLimits(flags *pflag.FlagSet) {
	f.limits = &limitFlags{}
	f.limits.registerFlags(flags)
}

// openStore opens the store of a verb that runs apps: it migrates an older schema, and
// logs it.
func (f *storeFlags) openStore(ctx context.Context, logger *slog.Logger) (*store.Store, error) {
	return f.openWith(ctx, &storeurl.Options{Options: store.Options{Lease: f.lease, Logger: logger}})
}

// openWith opens the store of the flags with options.
func (f *storeFlags) openWith(ctx context.Context, opts *storeurl.Options) (*store.Store, error) {
	opts.Artifacts, opts.Memory, opts.Revisions = f.artifacts, f.memory, f.revisions
	f.limits.applyTo(&opts.Options)
	st, err := storeurl.Open(ctx, f.sessionDB, opts)
	switch {
	case err != nil && f.onlyMemories():
		return nil, failWithf("opening the memories: %w", err)
	case err != nil:
		return nil, failWithf("opening the session database: %w", err)
	}
	return st, nil
}

// A databaseUse is what a verb that runs no app does with the database. None migrates the
// schema, because no older agenthost can start on the database afterwards.
type databaseUse int

const (
	// readDatabase reads an existing database, also with an older schema, and cannot
	// change it.
	readDatabase databaseUse = iota
	// readOrEmpty is readDatabase, and reads an empty database if there is none.
	readOrEmpty
	// changeDatabase changes an existing database.
	changeDatabase
	// createDatabase is changeDatabase, and creates the database if there is none.
	createDatabase
)

// setupCommand adds the store flags and a function that runs with an open store. The
// store is closed afterwards.
func (f *storeFlags) setupCommand(cmd *cobra.Command, use databaseUse, run func(ctx context.Context, st *store.Store, args []string) error) *cobra.Command {
	cmd.PreRunE = applyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, err := f.openStoreFor(cmd.Context(), use)
		if err != nil {
			return err
		}
		defer st.Close()
		return f.addLocation(run(cmd.Context(), st, args))
	}
	f.registerFlags(cmd.Flags())
	return cmd
}

// openStoreFor opens the store for a use. It creates a database or a folder only with
// createDatabase.
func (f *storeFlags) openStoreFor(ctx context.Context, use databaseUse) (*store.Store, error) {
	opts := &storeurl.Options{Existing: use != createDatabase, Access: sqlstore.AccessWrite}
	if use == readDatabase || use == readOrEmpty {
		opts.Access = sqlstore.AccessRead
	}
	st, err := f.openWith(ctx, opts)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return st, err
	case use == readOrEmpty:
		return memstore.New(nil), nil
	case f.onlyMemories():
		return nil, failWithf("no memory database at %s: set --memory, or change to the folder in which agenthost was run", displayDatabase(f.memory))
	default:
		return nil, failWithf("no session database at %s: set --session-db, or change to the folder in which agenthost was run", displayDatabase(f.sessionDB))
	}
}

// skipSessions replaces the session database by an empty one if the memories are elsewhere, for
// verbs that need only memories.
func (f *storeFlags) skipSessions() {
	if f.memory != "" {
		f.sessionDB, f.artifacts, f.revisions = "memory:", "memory:", ""
	}
}

// onlyMemories reports whether the memories are the only data that is stored.
func (f *storeFlags) onlyMemories() bool { return f.sessionDB == "memory:" && f.memory != "" }

// displayDatabase returns the file of a database, or its URL without the password.
func displayDatabase(rawURL string) string {
	_, path, ok := strings.Cut(rawURL, ":///")
	if strings.HasPrefix(rawURL, "sqlite") && ok {
		path, _, _ = strings.Cut(path, "?")
		if abs, err := filepath.Abs(path); err == nil {
			return abs
		}
	}
	return store.Redacted(rawURL)
}

// addLocation adds the session database to a not-found error.
func (f *storeFlags) addLocation(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return failWithf("%w in %s", err, displayDatabase(f.sessionDB))
	}
	return err
}

func writeDiagnostics(io stdio, ds spec.Diagnostics) error {
	if err := ds.WriteText(io.err); err != nil {
		return failWith(err)
	}
	return nil
}

// parseState parses KEY=VALUE pairs. A value that is not valid JSON is a string.
func parseState(pairs []string) (map[string]any, error) {
	state := map[string]any{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--state must be KEY=VALUE, got %q", p)
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

// readState reads a JSON or YAML file with a mapping.
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
		return nil, failWithf("--state-file %s must contain a mapping", file)
	}
	return state, nil
}

func printJSON(io stdio, v any) error {
	enc := json.NewEncoder(io.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return failWith(enc.Encode(v))
}

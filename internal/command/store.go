package command

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/storeurl"
)

// StoreFlags select the stores for sessions, artifacts and memories.
type StoreFlags struct {
	// Schemes are the program's.
	Schemes                                 []storeurl.Scheme
	SessionDB, artifacts, memory, revisions string
	Lease                                   time.Duration // 0 means the store's default
	limits                                  *limitFlags
	// nextToApp reports that SessionDB is the default that [StoreFlags.LocateDatabase] has found.
	nextToApp bool
}

// RegisterFlags adds the flags, and sets the schemes.
func (f *StoreFlags) RegisterFlags(env Env, flags *pflag.FlagSet) {
	f.Schemes = env.Schemes
	flags.StringVar(&f.SessionDB, "session-db", "", "session database URL: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database, mysql://user@host/database, agentengine://engine or memory: (default: data/agenthost.db next to the app)")
	flags.StringVar(&f.artifacts, "artifacts", "", "artifact store URL: dir:///folder, gs://bucket/prefix, s3://bucket/prefix or memory: (default: next to the database file, or in data/)")
	flags.StringVar(&f.memory, "memory", "", "memory store URL: a database as for --session-db, agentengine://engine or rag://corpus (default: the session database)")
	flags.StringVar(&f.revisions, "revisions", "", "database URL for revisions and evaluation results when sessions are in agentengine: (default: the memory database)")
}

// RegisterLimits adds the limits for verbs that run apps.
func (f *StoreFlags) RegisterLimits(flags *pflag.FlagSet) {
	f.limits = &limitFlags{}
	f.limits.registerFlags(flags)
}

// SetupCommand adds the store flags and a function that runs with an open store. The
// store is closed afterwards.
func (f *StoreFlags) SetupCommand(env Env, cmd *cobra.Command, use DatabaseUse, run func(ctx context.Context, st *store.Store, args []string) error) *cobra.Command {
	cmd.PreRunE = ApplyEnvironment
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.PrintLocation(env, args...)
		st, err := f.OpenStoreFor(cmd.Context(), use)
		if err != nil {
			return err
		}
		defer st.Close()
		return f.AddLocation(run(cmd.Context(), st, args))
	}
	f.RegisterFlags(env, cmd.Flags())
	return cmd
}

// A DatabaseUse is what a verb that runs no app does with the database. None migrates the
// schema, because no older agenthost can start on the database afterwards.
type DatabaseUse int

const (
	// ReadDatabase reads an existing database, also with an older schema, and cannot
	// change it.
	ReadDatabase DatabaseUse = iota
	// ReadOrEmpty is ReadDatabase, and reads an empty database if there is none.
	ReadOrEmpty
	// ChangeDatabase changes an existing database.
	ChangeDatabase
	// CreateDatabase is ChangeDatabase, and creates the database if there is none.
	CreateDatabase
)

// OpenStoreFor opens the store for a use. It creates a database or a folder only with
// [CreateDatabase].
func (f *StoreFlags) OpenStoreFor(ctx context.Context, use DatabaseUse) (*store.Store, error) {
	opts := &storeurl.Options{Existing: use != CreateDatabase, Access: store.AccessWrite}
	if use == ReadDatabase || use == ReadOrEmpty {
		opts.Access = store.AccessRead
	}
	st, err := f.openWith(ctx, opts)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return st, err
	case use == ReadOrEmpty:
		return memstore.New(nil), nil
	case f.onlyMemories():
		return nil, FailWithf("no memory database at %s: set --memory, or change to the folder in which agenthost was run", displayDatabase(f.memory))
	default:
		return nil, FailWithf("no session database at %s: set --session-db, or name the folder of an app that has sessions", displayDatabase(f.SessionDB))
	}
}

// OpenStore opens the store for a verb that runs apps: it migrates an older schema, and logs it.
func (f *StoreFlags) OpenStore(ctx context.Context, logger *slog.Logger) (*store.Store, error) {
	return f.openWith(ctx, &storeurl.Options{Options: store.Options{Lease: f.Lease, Logger: logger}})
}

// openWith opens the flags' store with options.
func (f *StoreFlags) openWith(ctx context.Context, opts *storeurl.Options) (*store.Store, error) {
	opts.Schemes = f.Schemes
	opts.Artifacts, opts.Memory, opts.Revisions = f.artifacts, f.memory, f.revisions
	f.limits.applyTo(&opts.Options)
	st, err := storeurl.Open(ctx, f.SessionDB, opts)
	switch {
	case err != nil && f.onlyMemories():
		return nil, FailWithf("opening the memories: %w", err)
	case errors.Is(err, fs.ErrPermission) && f.nextToApp:
		return nil, FailWithf("opening the session database: %w: the app's folder is read-only for this user, set --session-db, such as --session-db %s", err, DefaultSessionDB)
	case err != nil:
		return nil, FailWithf("opening the session database: %w", err)
	}
	return st, nil
}

// SkipSessions replaces the session database by an empty one if the memories are elsewhere, for
// verbs that need only memories.
func (f *StoreFlags) SkipSessions() {
	if f.memory != "" {
		f.SessionDB, f.artifacts, f.revisions = "memory:", "memory:", ""
	}
}

// onlyMemories reports whether the memories are the only data that is stored.
func (f *StoreFlags) onlyMemories() bool { return f.SessionDB == "memory:" && f.memory != "" }

// AddLocation adds the session database to a not-found error.
func (f *StoreFlags) AddLocation(err error) error {
	if errors.Is(err, session.ErrNotFound) {
		return FailWithf("%w in %s", err, displayDatabase(f.SessionDB))
	}
	return err
}

// displayDatabase returns a database's file, or its URL without the password.
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

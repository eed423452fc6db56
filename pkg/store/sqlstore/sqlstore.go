// Package sqlstore keeps sessions, memories and revisions in an SQL database:
// SQLite, PostgreSQL, MySQL and MariaDB, through GORM. It also migrates, describes,
// verifies, exports and imports such databases.
package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// Options configure a database. Nil and the zero value are valid.
type Options struct {
	// Owner identifies the store above the database in leases, see
	// [store.Options]; empty is [store.NewOwner].
	Owner string
	// Clock returns the time of migrations; nil is time.Now.
	Clock func() time.Time
	// Logger logs schema migrations and warnings; nil discards them.
	Logger *slog.Logger
	// Existing fails with [fs.ErrNotExist] if a database file is missing.
	Existing bool

	migrated func(Step) // called after each applied migration
}

func (o *Options) withDefaults() *Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Owner == "" {
		d.Owner = store.NewOwner()
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.migrated == nil {
		d.migrated = func(Step) {}
	}
	return &d
}

// A scheme opens the databases of URLs that begin with one of its names.
type scheme struct {
	names []string
	form  string
	// open gets the URL after the colon.
	open func(ctx context.Context, rest string, o *Options) (*Database, error)
}

// schemes returns the schemes of all engines. The driver names of SQLAlchemy are
// accepted.
func schemes() []scheme {
	return []scheme{
		{[]string{"sqlite", "sqlite+aiosqlite"}, "sqlite:///file.db", openSQLiteURL},
		{
			[]string{"postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg", "postgresql+psycopg2"},
			"postgres://user@host/database", openPostgresURL,
		},
		{
			[]string{
				"mysql", "mysql+pymysql", "mysql+aiomysql", "mysql+asyncmy", "mysql+mysqldb", "mysql+mysqlconnector",
				"mariadb", "mariadb+pymysql", "mariadb+aiomysql", "mariadb+asyncmy", "mariadb+mariadbconnector",
			},
			"mysql://user@host/database", openMySQLURL,
		},
	}
}

// findScheme returns the scheme of a URL and the rest after the colon.
func findScheme(url string) (s scheme, rest string, err error) {
	name, rest, _ := strings.Cut(url, ":")
	forms := []string{"memory:"} // of package memstore
	for _, s := range schemes() {
		if slices.Contains(s.names, name) {
			return s, rest, nil
		}
		forms = append(forms, s.form)
	}
	last := len(forms) - 1
	return scheme{}, "", fmt.Errorf("unknown scheme %q: supported are %s and %s", store.Redacted(name), strings.Join(forms[:last], ", "), forms[last])
}

// Open opens a database by URL: sqlite:///relative.db or sqlite:////absolute.db,
// postgres://user:password@host/database or mysql://user:password@host/database. A
// missing database file is created, an older schema is migrated, and a schema newer
// than this program is rejected. Unknown schemes and parameters are errors. No error
// contains a password.
func Open(ctx context.Context, url string, opts *Options) (*Database, error) {
	s, rest, err := findScheme(url)
	if err != nil {
		return nil, err
	}
	return s.open(ctx, rest, opts.withDefaults())
}

func openSQLiteURL(ctx context.Context, rest string, o *Options) (*Database, error) {
	u, err := parseSQLite(rest)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(u.path); o.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, missingFile(u.path)
	}
	return openSQLite(ctx, u, o)
}

// openPlainStore opens a database and a store over it, with artifacts in memory.
func openPlainStore(ctx context.Context, url string, o *Options) (*store.Store, *Database, error) {
	d, err := Open(ctx, url, o)
	if err != nil {
		return nil, nil, fmt.Errorf("opening store %q: %w", store.Redacted(url), err)
	}
	b := d.Backends()
	b.Artifacts = memstore.NewArtifacts()
	o = o.withDefaults()
	return store.New(b, &store.Options{Owner: d.owner, Clock: o.Clock, Logger: o.Logger}), d, nil
}

// Backends returns the backends of a store, without artifacts. They share the
// database, and closing the sessions closes it.
func (b *Database) Backends() *store.Backends {
	return &store.Backends{Sessions: b, Memories: sqlMemories{b, nil}, Revisions: sqlRevisions{b}}
}

// OpenMemories opens a database of its own for memories.
func OpenMemories(ctx context.Context, url string, opts *Options) (store.MemoryBackend, error) {
	d, err := Open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	return sqlMemories{d, d.Close}, nil
}

// ArtifactFolder returns the default folder of artifacts: next to a database file, or
// in data/ for a server.
func (b *Database) ArtifactFolder() string { return b.artifactFolder }

// CountWrites returns the counters of [store.Stats].
func (b *Database) CountWrites() (writes, transactions, queued int64) {
	for _, w := range b.writers {
		writes += w.jobs.Load()
		transactions += w.batches.Load()
		queued += w.queueLength()
	}
	return writes, transactions, queued
}

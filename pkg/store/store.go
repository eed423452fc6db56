package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agenthost/pkg/session"
)

// A Store holds the sessions, artifacts, memories and revisions of a host. It
// is safe for concurrent use.
type Store struct {
	Sessions  *Sessions
	Artifacts *Artifacts
	Memories  *Memories
	Revisions *Revisions
}

// Options configure a store. Nil and the zero value are valid.
type Options struct {
	// Artifacts is the URL of the artifact store: memory:, dir:///path,
	// gs://bucket or s3://bucket. The default is memory: for sessions in
	// memory; for a database file, a folder next to it named after the file
	// with the suffix .artifacts; and for a database server,
	// data/DATABASE.artifacts.
	Artifacts string
	// Memory is the URL of the memory store, in the forms of [Open]. The
	// default is the session store.
	Memory string
	// Clock returns the current time; nil is time.Now.
	Clock func() time.Time
	// NewID generates the ids of sessions and events; nil generates random
	// UUIDs.
	NewID func() string
	// Logger logs schema migrations and storage warnings; nil discards them.
	Logger *slog.Logger
	// CacheBytes limits the memory of the cache of recent sessions; 0 is 64
	// MiB.
	CacheBytes int64
	// Lease is the duration of a session lease. After a crash other replicas
	// can take over a session once its lease expires. 0 is 15 seconds.
	Lease time.Duration
	// MaxArtifactBytes limits the size of one artifact; 0 is 32 MiB.
	MaxArtifactBytes int64
	// MaxStateBytes limits the approximate JSON size of the state of one
	// session, of the user: keys of one user of an app, and of the app: keys of
	// one app; 0 is 4 MiB.
	MaxStateBytes int64
	// MaxEventBytes limits the JSON size of one event; 0 is 32 MiB.
	MaxEventBytes int64
	// MaxSessionBytes limits the JSON size of all events of a session; 0 is 256
	// MiB.
	MaxSessionBytes int64
	// Lookup reads environment variables for the credentials and endpoints of
	// buckets; nil is os.LookupEnv. Google credentials always come from the
	// environment of the process.
	Lookup func(name string) (string, bool)
	// Existing fails with [fs.ErrNotExist] if a database file is missing, and
	// creates no artifact folder. Read-only programs set it.
	Existing bool
	// HTTP is the client for buckets; nil uses a client of the store.
	HTTP *http.Client

	migrated func(Step) // called after each applied migration
	owner    string     // identifies this store in leases
}

// The defaults of Options.
const (
	defaultCacheBytes    = 64 << 20
	defaultArtifactBytes = 32 << 20
	defaultStateBytes    = 4 << 20
	defaultEventBytes    = 32 << 20
	defaultSessionBytes  = 256 << 20
)

func (o *Options) withDefaults() *Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.NewID == nil {
		d.NewID = uuid.NewString
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.CacheBytes == 0 {
		d.CacheBytes = defaultCacheBytes
	}
	if d.Lease == 0 {
		d.Lease = defaultLease
	}
	d.MaxArtifactBytes = cmp.Or(d.MaxArtifactBytes, defaultArtifactBytes)
	d.MaxStateBytes = cmp.Or(d.MaxStateBytes, defaultStateBytes)
	d.MaxEventBytes = cmp.Or(d.MaxEventBytes, defaultEventBytes)
	d.MaxSessionBytes = cmp.Or(d.MaxSessionBytes, defaultSessionBytes)
	if d.Lookup == nil {
		d.Lookup = os.LookupEnv
	}
	if d.migrated == nil {
		d.migrated = func(Step) {}
	}
	d.owner = ownerName()
	return &d
}

// A scheme opens the session store of URLs that begin with one of its names.
type scheme struct {
	names []string
	form  string
	// open gets the URL after the colon. It returns the default artifact URL of
	// this session store.
	open func(ctx context.Context, rest string, o *Options) (b backend, artifacts string, err error)
}

// schemes returns all session store schemes.
func schemes() []scheme {
	return []scheme{
		{[]string{"memory"}, "memory:", openMemBackend},
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

// Open opens a store by URL: memory:, sqlite:///relative.db or
// sqlite:////absolute.db, postgres://user:password@host/database or
// mysql://user:password@host/database. The driver names of SQLAlchemy
// (sqlite+aiosqlite:, postgresql+asyncpg:) are accepted. A missing database
// file is created, an older schema is migrated, and a schema newer than this
// program is rejected. Unknown schemes and parameters are errors. No error
// contains a password.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	if o.Lease < 0 {
		return nil, fmt.Errorf("opening store %q: lease must not be negative, got %s", Redacted(url), o.Lease)
	}
	s, rest, err := findScheme(url)
	if err != nil {
		return nil, fmt.Errorf("opening store %q: %w", Redacted(url), err)
	}
	return s.openStore(ctx, url, rest, o)
}

// findScheme returns the scheme of a URL and the rest after the colon.
func findScheme(url string) (s scheme, rest string, err error) {
	name, rest, _ := strings.Cut(url, ":")
	for _, s := range schemes() {
		if slices.Contains(s.names, name) {
			return s, rest, nil
		}
	}
	return scheme{}, "", fmt.Errorf("unknown scheme %q: supported are %s", Redacted(name), listSchemeForms())
}

func listSchemeForms() string {
	var all []string
	for _, s := range schemes() {
		all = append(all, s.form)
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

func (s scheme) openStore(ctx context.Context, url, rest string, o *Options) (*Store, error) {
	b, artifacts, err := s.open(ctx, rest, o)
	if err != nil {
		return nil, fmt.Errorf("opening store %q: %w", Redacted(url), err)
	}
	if o.Artifacts != "" {
		artifacts = o.Artifacts
	}
	a, err := openArtifacts(ctx, artifacts, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening artifacts %q: %w", Redacted(artifacts), err), b.close())
	}
	m, err := openMemories(ctx, url, b, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening memories %q: %w", Redacted(o.Memory), err), a.backend.close(), b.close())
	}
	c := newCache(o.CacheBytes)
	sessions := &Sessions{
		backend: b, clock: o.Clock, newID: o.NewID, cache: c, limits: limits{o.MaxStateBytes, o.MaxEventBytes, o.MaxSessionBytes},
		growing: newRunQueue(), runs: newRunQueue(), leases: newLeaseManager(b, c, o),
	}
	return &Store{Sessions: sessions, Artifacts: a, Memories: m, Revisions: openRevisions(b, o)}, nil
}

func openMemBackend(_ context.Context, rest string, _ *Options) (backend, string, error) {
	if rest != "" && rest != "//" {
		return nil, "", fmt.Errorf("memory: has no path, got %q", rest)
	}
	return newMemBackend(), "memory:", nil
}

func openSQLiteURL(ctx context.Context, rest string, o *Options) (backend, string, error) {
	u, err := parseSQLite(rest)
	if err != nil {
		return nil, "", err
	}
	if _, err := os.Stat(u.path); o.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, "", missingFile(u.path)
	}
	b, err := openSQLite(ctx, u, o)
	if err != nil {
		return nil, "", err
	}
	return b, "dir:" + u.path + ".artifacts", nil
}

// Close waits for pending writes, releases the session leases and closes the
// backends. After Close every method returns an error. Close is idempotent.
func (s *Store) Close() error {
	return errors.Join(s.Sessions.leases.close(), s.Memories.close(), s.Sessions.backend.close(), s.Artifacts.backend.close())
}

// Ping checks that the store can write.
func (s *Store) Ping(ctx context.Context) error {
	err := s.Sessions.backend.ping(ctx)
	if errors.Is(err, session.ErrUnavailable) {
		return err
	}
	if err != nil {
		return fmt.Errorf("session store: %w", err)
	}
	return nil
}

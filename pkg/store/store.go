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

// A Store holds the sessions, artifacts, memories and revisions of a host. Many goroutines
// may use it.
type Store struct {
	Sessions  *Sessions
	Artifacts *Artifacts
	Memories  *Memories
	Revisions *Revisions
}

// Options change how a store is opened. Nil and the zero value work.
type Options struct {
	// Artifacts is the URL of the artifacts: memory:, dir:///path, gs://bucket
	// or s3://bucket. Empty is memory: for sessions in memory, for a database
	// file a folder beside it, named like the file with .artifacts added, and
	// for a database on a server data/DATABASE.artifacts.
	Artifacts string
	// Memory is the URL of the memories, one of those of [Open]. Empty is the
	// place of the sessions.
	Memory string
	// Clock tells the time; nil is time.Now.
	Clock func() time.Time
	// NewID makes the ids of sessions and events; nil makes random UUIDs.
	NewID func() string
	// Logger hears when the schema of a database is changed; nil is silent.
	Logger *slog.Logger
	// CacheBytes bounds the memory of recent sessions; 0 is 64 MiB.
	CacheBytes int64
	// Lease is how long others leave a session to this store when they do not
	// hear of it in the middle of a run; 0 is 15 seconds.
	Lease time.Duration
	// MaxArtifactBytes bounds one artifact; 0 is 32 MiB.
	MaxArtifactBytes int64
	// MaxStateBytes bounds the state of one session, the user: keys of one user of
	// an app, and the app: keys of one app, about as JSON; 0 is 4 MiB.
	MaxStateBytes int64
	// MaxEventBytes bounds the JSON of one event; 0 is 32 MiB.
	MaxEventBytes int64
	// MaxSessionBytes bounds the JSON of all events of a session; 0 is 256 MiB.
	MaxSessionBytes int64
	// Lookup reads variables of the environment, for the keys and addresses of
	// buckets; nil is os.LookupEnv. Google's credentials are the process's.
	Lookup func(name string) (string, bool)
	// Existing refuses a database file that is not there with [fs.ErrNotExist], and
	// makes no folder for artifacts: for programs that only read.
	Existing bool
	// HTTP asks buckets; nil is a client of the store's own.
	HTTP *http.Client

	migrated func(Step) // hears of the steps that were carried out
	owner    string     // the store's name in leases
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

// A scheme opens the sessions of the URLs that begin with one of its names.
type scheme struct {
	names []string
	form  string
	// open gets what follows the colon, and returns the URL of the artifacts
	// that belong to these sessions.
	open func(ctx context.Context, rest string, o *Options) (b backend, artifacts string, err error)
}

// schemes lists every place where sessions can be kept.
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
// mysql://user:password@host/database, also with the driver names of SQLAlchemy
// (sqlite+aiosqlite:, postgresql+asyncpg:). A missing file is made, an older
// schema brought up to date, and one that is newer than this program refused.
// Unknown schemes and parameters are errors. No error shows a password.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	if o.Lease < 0 {
		return nil, fmt.Errorf("opening store %q: lease %s: it cannot be below zero", Redacted(url), o.Lease)
	}
	s, rest, err := findScheme(url)
	if err != nil {
		return nil, fmt.Errorf("opening store %q: %w", Redacted(url), err)
	}
	return s.openStore(ctx, url, rest, o)
}

// findScheme finds the scheme of a URL, and what follows the colon.
func findScheme(url string) (s scheme, rest string, err error) {
	name, rest, _ := strings.Cut(url, ":")
	for _, s := range schemes() {
		if slices.Contains(s.names, name) {
			return s, rest, nil
		}
	}
	return scheme{}, "", fmt.Errorf("unknown scheme %q: there are %s", Redacted(name), listSchemeForms())
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
		return nil, "", fmt.Errorf("memory: takes nothing after the colon, not %q", rest)
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

// Close waits for writes under way, gives sessions that were acquired free, and
// closes the backends. A store that was closed answers every call with an error.
// Closing it again is no error.
func (s *Store) Close() error {
	return errors.Join(s.Sessions.leases.close(), s.Memories.close(), s.Sessions.backend.close(), s.Artifacts.backend.close())
}

// Ping says whether the store can write.
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

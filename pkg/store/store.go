package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A Store holds the sessions and artifacts of a host. Many goroutines may use
// it.
type Store struct {
	Sessions  *Sessions
	Artifacts *Artifacts
}

// Options change how a store is opened. Nil and the zero value work.
type Options struct {
	// Artifacts is the URL of the artifacts: memory:, or dir:///path. Empty is
	// memory: for sessions in memory, and for a database file a folder beside
	// it, named like the file with .artifacts added.
	Artifacts string
	// Clock tells the time; nil is time.Now.
	Clock func() time.Time
	// NewID makes the ids of sessions and events; nil makes random UUIDs.
	NewID func() string
	// Logger hears when the schema of a database is changed; nil is silent.
	Logger *slog.Logger
	// CacheBytes bounds the memory of recent sessions; 0 is 64 MiB.
	CacheBytes int64
	// MaxArtifactBytes bounds one artifact; 0 is 32 MiB.
	MaxArtifactBytes int64
}

// The defaults of Options.
const (
	defaultCacheBytes    = 64 << 20
	defaultArtifactBytes = 32 << 20
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
	if d.MaxArtifactBytes == 0 {
		d.MaxArtifactBytes = defaultArtifactBytes
	}
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
		{[]string{"memory"}, "memory:", openMemory},
		{[]string{"sqlite", "sqlite+aiosqlite"}, "sqlite:///file.db", openSQLiteURL},
	}
}

// Open opens a store by URL: memory:, sqlite:///relative.db or
// sqlite:////absolute.db, also written sqlite+aiosqlite:. A missing database
// is made, an older one brought up to date, and one that is newer than this
// program refused. Unknown schemes and parameters are errors.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	o := opts.withDefaults()
	name, rest, _ := strings.Cut(url, ":")
	for _, s := range schemes() {
		for _, n := range s.names {
			if n == name {
				return s.store(ctx, url, rest, o)
			}
		}
	}
	return nil, fmt.Errorf("opening store %q: unknown scheme %q: there are %s", url, name, forms())
}

func forms() string {
	var all []string
	for _, s := range schemes() {
		all = append(all, s.form)
	}
	return strings.Join(all, " and ")
}

func (s scheme) store(ctx context.Context, url, rest string, o *Options) (*Store, error) {
	b, artifacts, err := s.open(ctx, rest, o)
	if err != nil {
		return nil, fmt.Errorf("opening store %q: %w", url, err)
	}
	if o.Artifacts != "" {
		artifacts = o.Artifacts
	}
	a, err := openArtifacts(artifacts, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening artifacts %q: %w", artifacts, err), b.close())
	}
	sessions := &Sessions{backend: b, clock: o.Clock, newID: o.NewID, cache: newCache(o.CacheBytes), runs: newRuns()}
	return &Store{Sessions: sessions, Artifacts: a}, nil
}

func openMemory(_ context.Context, rest string, _ *Options) (backend, string, error) {
	if rest != "" && rest != "//" {
		return nil, "", fmt.Errorf("memory: takes nothing after the colon, not %q", rest)
	}
	return newMemory(), "memory:", nil
}

func openSQLiteURL(ctx context.Context, rest string, o *Options) (backend, string, error) {
	u, err := parseSQLite(rest)
	if err != nil {
		return nil, "", err
	}
	b, err := openSQLite(ctx, u, o)
	if err != nil {
		return nil, "", err
	}
	return b, "dir:" + u.path + ".artifacts", nil
}

// Close waits for writes under way and closes the backends. A store that was
// closed answers every call with an error. Closing it again is no error.
func (s *Store) Close() error {
	return errors.Join(s.Sessions.backend.close(), s.Artifacts.backend.close())
}

// Ping says whether the store can write.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.Sessions.backend.ping(ctx); err != nil {
		return fmt.Errorf("session store: %w", err)
	}
	return nil
}

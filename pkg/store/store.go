package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	// Owner identifies this store in leases. A backend that releases the leases of
	// dead processes gets the same name. Empty is [NewOwner].
	Owner string
}

// DefaultArtifactBytes is the default of Options.MaxArtifactBytes.
const DefaultArtifactBytes = 32 << 20

// The other defaults of Options.
const (
	defaultCacheBytes   = 64 << 20
	defaultStateBytes   = 4 << 20
	defaultEventBytes   = 32 << 20
	defaultSessionBytes = 256 << 20
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
	d.MaxArtifactBytes = cmp.Or(d.MaxArtifactBytes, DefaultArtifactBytes)
	d.MaxStateBytes = cmp.Or(d.MaxStateBytes, defaultStateBytes)
	d.MaxEventBytes = cmp.Or(d.MaxEventBytes, defaultEventBytes)
	d.MaxSessionBytes = cmp.Or(d.MaxSessionBytes, defaultSessionBytes)
	d.Owner = cmp.Or(d.Owner, NewOwner())
	return &d
}

// New returns a store over backends. It owns them: [Store.Close] closes them.
func New(b *Backends, opts *Options) *Store {
	o := opts.withDefaults()
	c := newCache(o.CacheBytes)
	return &Store{
		Sessions: &Sessions{
			backend: b.Sessions, clock: o.Clock, newID: o.NewID, cache: c, limits: limits{o.MaxStateBytes, o.MaxEventBytes, o.MaxSessionBytes},
			growing: newRunQueue(), runs: newRunQueue(), leases: newLeaseManager(b, c, o),
		},
		Artifacts: &Artifacts{backend: b.Artifacts, clock: o.Clock, maxBytes: o.MaxArtifactBytes},
		Memories:  &Memories{backend: b.Memories, clock: o.Clock, newID: o.NewID},
		Revisions: &Revisions{backend: b.Revisions, clock: o.Clock},
	}
}

// Close waits for pending writes, releases the session leases and closes the
// backends. After Close every method returns an error. Close is idempotent.
func (s *Store) Close() error {
	return errors.Join(s.Sessions.leases.close(), s.Memories.backend.Close(), s.Revisions.backend.Close(), s.Sessions.backend.Close(), s.Artifacts.backend.Close())
}

// Ping checks that the store can write.
func (s *Store) Ping(ctx context.Context) error {
	err := s.Sessions.backend.Ping(ctx)
	if errors.Is(err, session.ErrUnavailable) {
		return err
	}
	if err != nil {
		return fmt.Errorf("session store: %w", err)
	}
	return nil
}

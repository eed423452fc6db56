package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"agenthost/internal/codec"
	"agenthost/pkg/connection"
	"agenthost/pkg/session"
)

// A Store holds a host's sessions, artifacts, memories, revisions and evaluation results. It is
// safe for concurrent use.
type Store struct {
	Sessions  *Sessions
	Artifacts *Artifacts
	Memories  *Memories
	Revisions *Revisions
	Results   *Results
	Outcomes  *Outcomes
	Rollouts  *Rollouts
	// Grants are nil if the backends cannot store them.
	Grants connection.GrantStore
}

// Options configure a store. Nil and the zero value are valid.
type Options struct {
	// Clock returns the current time; nil is time.Now.
	Clock func() time.Time
	// NewID generates session and event ids; nil generates random UUIDs.
	NewID func() string
	// Logger logs schema migrations and storage warnings; nil discards them.
	Logger *slog.Logger
	// CacheBytes limits the memory for caching recent sessions; 0 is 64 MiB.
	CacheBytes int64
	// Lease is how long a session lease lasts. After a crash other replicas can take over a session
	// once its lease expires. 0 is 15 seconds.
	Lease time.Duration
	// MaxArtifactBytes limits each artifact's size; 0 is 32 MiB.
	MaxArtifactBytes int64
	// MaxStateBytes limits the approximate JSON size of one session's state, one user's user: keys
	// in an app, and one app's app: keys; 0 is 4 MiB.
	MaxStateBytes int64
	// MaxEventBytes limits each event's JSON size; 0 is 32 MiB.
	MaxEventBytes int64
	// MaxSessionBytes limits the JSON size of a session's events; 0 is 256 MiB.
	MaxSessionBytes int64
	// Owner identifies this store in leases. A backend that releases dead processes' leases gets
	// the same name. Empty is [NewOwner].
	Owner string
}

// DefaultArtifactBytes is the default of Options.MaxArtifactBytes.
const DefaultArtifactBytes = 32 << 20

// Other defaults for Options.
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

// Backends are the engines below a store. All but Results, Outcomes, Rollouts and Grants are required; a
// package such as memstore or sqlstore has some.
type Backends struct {
	Sessions  SessionBackend
	Artifacts ArtifactBackend
	Memories  MemoryBackend
	// MemoryService replaces Memories if it is not nil.
	MemoryService MemoryService
	Revisions     RevisionBackend
	// Results is nil for a store that cannot store results; see [ErrNoResults].
	Results ResultBackend
	// Outcomes is nil for a store that cannot read outcomes; see [ErrNoOutcomes]. The session backend
	// closes it.
	Outcomes OutcomeBackend
	// Rollouts is nil for a store that cannot store rollouts; see [ErrNoRollouts]. The session backend
	// closes it.
	Rollouts RolloutBackend
	// Grants are nil for a store that cannot store what users have authorized. The session backend
	// closes them.
	Grants connection.GrantStore
	// Unshared reports that no other store can open the sessions. Their runs need
	// no leases.
	Unshared bool
}

// New returns a store over backends. It owns them: [Store.Close] closes them.
func New(b *Backends, opts *Options) *Store {
	o := opts.withDefaults()
	c := newCache(o.CacheBytes)
	results := b.Results
	if results == nil {
		results = noResults{}
	}
	return &Store{
		Sessions: &Sessions{
			backend: b.Sessions, clock: o.Clock, newID: o.NewID, cache: c, limits: limits{o.MaxStateBytes, o.MaxEventBytes, o.MaxSessionBytes},
			growing: &growthQueue{newRunQueue(), b.Sessions}, runs: newRunQueue(), leases: &leaseManager{
				unshared: b.Unshared, backend: b.Sessions, cache: c, clock: o.Clock, logger: o.Logger, term: o.Lease, owner: o.Owner,
				held: map[session.Key]*lease{},
			},
		},
		Artifacts: &Artifacts{backend: b.Artifacts, clock: o.Clock, maxBytes: o.MaxArtifactBytes},
		Memories:  &Memories{backend: b.Memories, service: b.MemoryService, clock: o.Clock, newID: o.NewID},
		Revisions: &Revisions{backend: b.Revisions, clock: o.Clock},
		Results:   &Results{backend: results, clock: o.Clock},
		Outcomes:  &Outcomes{backend: b.Outcomes, clock: o.Clock},
		Rollouts:  &Rollouts{backend: b.Rollouts, clock: o.Clock, owner: o.Owner},
		Grants:    b.Grants,
	}
}

// Close waits for pending writes, releases the session leases and closes the
// backends. After Close every method returns an error. Close is idempotent.
func (s *Store) Close() error {
	return errors.Join(s.Sessions.leases.close(), s.Memories.closeAll(), s.Revisions.backend.Close(), s.Results.backend.Close(), s.Sessions.backend.Close(), s.Artifacts.backend.Close())
}

// Ping checks that the store can write.
func (s *Store) Ping(ctx context.Context) error {
	err := s.Sessions.backend.Ping(ctx)
	if err == nil || errors.Is(err, session.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("session store: %w", err)
}

// Stats are counters since the store was opened, and current values.
type Stats struct {
	// CacheHits and CacheMisses count session reads with and without a cached history.
	// CacheSessions and CacheBytes are the cache's current contents.
	CacheHits, CacheMisses    int64
	CacheSessions, CacheBytes int64
	// Queue counts waits for other runs in this store, Lease waits for sessions
	// leased to another store.
	Queue, Lease Waits
	// Writes are committed in Transactions, many in one transaction under load (group commit).
	// Queued counts the waiting writes. All are 0 for sessions in memory.
	Writes, Transactions, Queued int64
}

// A WriteCounter is a [SessionBackend] that counts its writes, see [Stats].
type WriteCounter interface {
	CountWrites() (writes, transactions, queued int64)
}

// Stats returns the store's statistics.
func (s *Store) Stats() Stats {
	all := s.Sessions
	st := Stats{
		CacheHits: all.cache.hits.Load(), CacheMisses: all.cache.misses.Load(),
		Queue: all.runs.waits.readWaits(), Lease: all.leases.waits.readWaits(),
	}
	st.CacheSessions, st.CacheBytes = all.cache.size()
	if b, ok := all.backend.(WriteCounter); ok {
		st.Writes, st.Transactions, st.Queued = b.CountWrites()
	}
	return st
}

// Delete deletes a session as [Sessions.Delete] does, and its artifacts. The user's artifacts stay.
// Deleting a missing session succeeds. Outcomes of turns that are younger than keepOutcomes stay in the sums
// of the app's deleted sessions, see [OutcomeDay]; 0 keeps none, nor does a store without a backend for
// outcomes.
func (s *Store) Delete(ctx context.Context, key session.Key, keepOutcomes time.Duration) error {
	if err := codec.CheckSession(key); err != nil {
		return err
	}
	names, err := s.Artifacts.Keys(ctx, key)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "user:") {
			continue
		}
		if err := s.Artifacts.Delete(ctx, key, name); err != nil {
			return err
		}
	}
	if keepOutcomes <= 0 || s.Outcomes.backend == nil {
		return s.Sessions.Delete(ctx, key)
	}
	return s.Sessions.deleteBy(ctx, key, func() error {
		return s.Outcomes.backend.DeleteCounted(ctx, key, s.Outcomes.newRetention(keepOutcomes))
	})
}

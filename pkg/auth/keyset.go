package auth

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"agenthost/internal/safe"
)

// freshness is how long keys are used before they are read anew, and patience how
// soon they may be read again: anybody can make up tokens with keys that there are
// not, and an issuer may be down.
const keyTTL, refreshInterval = 15 * time.Minute, 10 * time.Second

// A keySet holds the keys of an issuer, as they were read last. While they are read
// anew, those that are known serve on; only who needs another one waits, for the one
// reading that is under way. Of keys that there are not nothing is remembered but
// when they were looked for.
type keySet struct {
	location string
	client   *http.Client
	clock    func() time.Time
	fetches  sync.WaitGroup

	mu        sync.Mutex // never held while keys are read
	keys      []key
	attempted time.Time // the last time that somebody read them
	fetched   time.Time // the last time that it went well
	fetch     *keyFetch // nil when nobody reads
	closed    bool
}

// A reading of keys is over when done is closed; err is how it failed.
type keyFetch struct {
	done   chan struct{}
	cancel context.CancelFunc
	err    error
}

func newKeySet(where string, opts Options) *keySet {
	return &keySet{location: where, client: opts.Client, clock: opts.Clock}
}

// findKeys returns the keys of an id, or all if it is empty. Keys that cannot be read
// anew are used as they are.
func (ks *keySet) findKeys(ctx context.Context, id string) ([]key, error) {
	found, r := ks.knownKeys(ctx, id)
	if len(found) > 0 {
		return found, nil
	}
	if r != nil {
		select {
		case <-r.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	ks.mu.Lock()
	defer ks.mu.Unlock()
	switch {
	case len(ks.keys) > 0:
		return ks.keysWithID(id), nil
	case r != nil && r.err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, ks.location, r.err)
	}
	return nil, ErrUnavailable
}

// knownKeys returns the keys of an id as they are known, and the reading that is under
// way. It begins one when that is needed, and none was of late.
func (ks *keySet) knownKeys(ctx context.Context, id string) ([]key, *keyFetch) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	now, found := ks.clock(), ks.keysWithID(id)
	needed := len(found) == 0 || now.Sub(ks.fetched) >= keyTTL
	if needed && ks.fetch == nil && !ks.closed && (ks.attempted.IsZero() || now.Sub(ks.attempted) >= refreshInterval) {
		ks.startFetch(ctx, now)
	}
	return found, ks.fetch
}

// startFetch reads the keys in the background. Whoever asked may leave; the keys are
// everybody's.
func (ks *keySet) startFetch(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &keyFetch{done: make(chan struct{}), cancel: cancel}
	ks.fetch, ks.attempted = r, now
	ks.fetches.Go(func() {
		defer cancel()
		defer safe.Recover(func(p *safe.Panic) { ks.finishFetch(r, nil, fmt.Errorf("%w\n%s", p, p.Stack)) })
		keys, err := ks.fetchKeys(ctx)
		ks.finishFetch(r, keys, err)
	})
}

// finishFetch ends a reading: those who wait for it use the keys, or get its error.
func (ks *keySet) finishFetch(r *keyFetch, keys []key, err error) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if r.err = err; err == nil {
		ks.keys, ks.fetched = keys, ks.attempted
	}
	ks.fetch = nil
	close(r.done)
}

// close ends a reading that is under way, and begins none any more.
func (ks *keySet) close() {
	ks.mu.Lock()
	ks.closed = true
	if ks.fetch != nil {
		ks.fetch.cancel()
	}
	ks.mu.Unlock()
	ks.fetches.Wait()
}

func (ks *keySet) keysWithID(id string) []key {
	var found []key
	for _, k := range ks.keys {
		if id == "" || k.id == id {
			found = append(found, k)
		}
	}
	return found
}

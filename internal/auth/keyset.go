package auth

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"agenthost/internal/safe"
)

// keyTTL is how long keys are used before they are refreshed. refreshInterval is the
// minimum time between two fetches: tokens can name arbitrary unknown keys, and the
// issuer may be down.
const keyTTL, refreshInterval = 15 * time.Minute, 10 * time.Second

// A keySet caches an issuer's keys. During a refresh, known keys stay in use; only callers that
// need an unknown key wait for the fetch in flight. Unknown key IDs are not cached, only the time
// of the last fetch.
type keySet struct {
	location string
	client   *http.Client
	clock    func() time.Time
	fetches  sync.WaitGroup

	mu        sync.Mutex // never held during a fetch
	keys      []jose.JSONWebKey
	attempted time.Time // start of the last fetch
	fetched   time.Time // start of the last successful fetch
	fetch     *keyFetch // the fetch in flight, or nil
	closed    bool
}

// A keyFetch is one fetch of the keys. It closes done when it ends; err is its error.
type keyFetch struct {
	done   chan struct{}
	cancel context.CancelFunc
	err    error
}

func newKeySet(where string, opts Options) *keySet {
	return &keySet{location: where, client: opts.Client, clock: opts.Clock}
}

// findKeys returns the keys with an ID, or all if it is empty. If a refresh fails, it
// returns the known keys.
func (ks *keySet) findKeys(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
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

// knownKeys returns the cached keys with an ID and the fetch in flight. It starts a
// fetch if one is needed and the last one is at least refreshInterval ago.
func (ks *keySet) knownKeys(ctx context.Context, id string) ([]jose.JSONWebKey, *keyFetch) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	now, found := ks.clock(), ks.keysWithID(id)
	needed := len(found) == 0 || now.Sub(ks.fetched) >= keyTTL
	if needed && ks.fetch == nil && !ks.closed && (ks.attempted.IsZero() || now.Sub(ks.attempted) >= refreshInterval) {
		ks.startFetch(ctx, now)
	}
	return found, ks.fetch
}

// startFetch fetches the keys in the background. The fetch continues if the caller's
// context is canceled, because its result is shared.
func (ks *keySet) startFetch(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &keyFetch{done: make(chan struct{}), cancel: cancel}
	ks.fetch, ks.attempted = r, now
	ks.fetches.Go(func() {
		defer cancel()
		defer safe.Recover(func(p *safe.Panic) { ks.finishFetch(r, nil, fmt.Errorf("%w\n%s", p, p.Stack)) })
		keys, err := ks.loadKeys(ctx)
		ks.finishFetch(r, keys, err)
	})
}

// finishFetch stores a fetch's result and wakes the callers that wait for it.
func (ks *keySet) finishFetch(r *keyFetch, keys []jose.JSONWebKey, err error) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if r.err = err; err == nil {
		ks.keys, ks.fetched = keys, ks.attempted
	}
	ks.fetch = nil
	close(r.done)
}

// close cancels the fetch in flight and prevents new ones.
func (ks *keySet) close() {
	ks.mu.Lock()
	ks.closed = true
	if ks.fetch != nil {
		ks.fetch.cancel()
	}
	ks.mu.Unlock()
	ks.fetches.Wait()
}

func (ks *keySet) keysWithID(id string) []jose.JSONWebKey {
	var found []jose.JSONWebKey
	for _, k := range ks.keys {
		if id == "" || k.KeyID == id {
			found = append(found, k)
		}
	}
	return found
}

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
const freshness, patience = 15 * time.Minute, 10 * time.Second

// A keySet holds the keys of an issuer, as they were read last. While they are read
// anew, those that are known serve on; only who needs another one waits, for the one
// reading that is under way. Of keys that there are not nothing is remembered but
// when they were looked for.
type keySet struct {
	where   string
	client  *http.Client
	clock   func() time.Time
	readers sync.WaitGroup

	mu      sync.Mutex // never held while keys are read
	keys    []key
	tried   time.Time // the last time that somebody read them
	read    time.Time // the last time that it went well
	reading *reading  // nil when nobody reads
	closed  bool
}

// A reading of keys is over when done is closed; err is how it failed.
type reading struct {
	done   chan struct{}
	cancel context.CancelFunc
	err    error
}

func newKeySet(where string, opts Options) *keySet {
	return &keySet{where: where, client: opts.Client, clock: opts.Clock}
}

// find returns the keys of an id, or all if it is empty. Keys that cannot be read
// anew are used as they are.
func (ks *keySet) find(ctx context.Context, id string) ([]key, error) {
	found, r := ks.look(ctx, id)
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
		return ks.with(id), nil
	case r != nil && r.err != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, ks.where, r.err)
	}
	return nil, ErrUnavailable
}

// look returns the keys of an id as they are known, and the reading that is under
// way. It begins one when that is needed, and none was of late.
func (ks *keySet) look(ctx context.Context, id string) ([]key, *reading) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	now, found := ks.clock(), ks.with(id)
	needed := len(found) == 0 || now.Sub(ks.read) >= freshness
	if needed && ks.reading == nil && !ks.closed && (ks.tried.IsZero() || now.Sub(ks.tried) >= patience) {
		ks.begin(ctx, now)
	}
	return found, ks.reading
}

// begin reads the keys in the background. Whoever asked may leave; the keys are
// everybody's.
func (ks *keySet) begin(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &reading{done: make(chan struct{}), cancel: cancel}
	ks.reading, ks.tried = r, now
	ks.readers.Go(func() {
		defer cancel()
		defer safe.Recover(func(p *safe.Panic) { ks.finish(r, nil, fmt.Errorf("%w\n%s", p, p.Stack)) })
		keys, err := ks.load(ctx)
		ks.finish(r, keys, err)
	})
}

// finish ends a reading: those who wait for it use the keys, or get its error.
func (ks *keySet) finish(r *reading, keys []key, err error) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	if r.err = err; err == nil {
		ks.keys, ks.read = keys, ks.tried
	}
	ks.reading = nil
	close(r.done)
}

// close ends a reading that is under way, and begins none any more.
func (ks *keySet) close() {
	ks.mu.Lock()
	ks.closed = true
	if ks.reading != nil {
		ks.reading.cancel()
	}
	ks.mu.Unlock()
	ks.readers.Wait()
}

func (ks *keySet) with(id string) []key {
	var found []key
	for _, k := range ks.keys {
		if id == "" || k.id == id {
			found = append(found, k)
		}
	}
	return found
}

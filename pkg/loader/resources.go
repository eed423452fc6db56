package loader

import (
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
)

// resources are the open resources of apps that survive reloads: tool sets, model
// clients, connections. The next revision of an app shares a resource if its key is
// equal; otherwise a new resource is created before the revision serves. A resource is
// closed when its last user, which has no more runs, releases it. It is safe for
// concurrent use.
type resources struct {
	mu    sync.Mutex
	byKey map[resourceKey]*resource
}

// A resourceKey is the hash of a resource's kind, app and settings. Positions in files
// do not count.
type resourceKey [sha256.Size]byte

func hashResourceKey(words ...string) resourceKey {
	return sha256.Sum256([]byte(strings.Join(words, "\x00")))
}

// A resource is reference-counted.
type resource struct {
	value    any
	close    func() error
	refCount int
}

// acquireResource returns the resource of a key, and its release function, which may be
// called once. It creates the resource if it does not exist.
func acquireResource[T any](r *resources, key resourceKey, make func() (T, func() error, error)) (T, func() error, error) {
	release := func() error { return r.releaseResource(key) }
	if got := r.acquireOrAdd(key, nil); got != nil {
		return got.value.(T), release, nil
	}
	value, end, err := make() // may be slow
	if err != nil {
		return value, nil, err
	}
	made := &resource{value: value, close: end}
	if got := r.acquireOrAdd(key, made); got != made { // another goroutine was faster
		return got.value.(T), closeBoth(end, release), nil
	}
	return value, release, nil
}

// acquireOrAdd increments the reference count of the existing resource, or adds the new
// one.
func (r *resources) acquireOrAdd(key resourceKey, made *resource) *resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.byKey[key]
	if got == nil {
		if made == nil {
			return nil
		}
		got = made
		r.byKey[key] = got
	}
	got.refCount++
	return got
}

func (r *resources) releaseResource(key resourceKey) error {
	r.mu.Lock()
	got := r.byKey[key]
	got.refCount--
	last := got.refCount == 0
	if last {
		delete(r.byKey, key)
	}
	r.mu.Unlock()
	if !last {
		return nil
	}
	return got.close()
}

// closeBoth returns a function that calls both functions in order.
func closeBoth(first, second func() error) func() error {
	return func() error { return errors.Join(first(), second()) }
}

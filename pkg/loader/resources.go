package loader

import (
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
)

// resources are what apps hold open, or keep warm, from one revision to the
// next: sets of tools, clients of models, connections. What the next revision
// of an app asks for in the same words is the same one; what it asks for in
// other words is made before it serves. A resource closes when the last app that
// has it does, which is after the last run. Many goroutines may use resources.
type resources struct {
	mu    sync.Mutex
	byKey map[resourceKey]*resource
}

// A resourceKey is what a resource is made from, as a hash: first its sort and
// the app's name. Where the words stand does not matter.
type resourceKey [sha256.Size]byte

func hashResourceKey(words ...string) resourceKey {
	return sha256.Sum256([]byte(strings.Join(words, "\x00")))
}

// A resource and how many have it.
type resource struct {
	value    any
	close    func() error
	refCount int
}

// acquireResource returns the resource of a key, which is made when nobody has it, and
// how to give it back, once.
func acquireResource[T any](r *resources, key resourceKey, make func() (T, func() error, error)) (T, func() error, error) {
	release := func() error { return r.releaseResource(key) }
	if got := r.acquireOrAdd(key, nil); got != nil {
		return got.value.(T), release, nil
	}
	value, end, err := make() // may take its time
	if err != nil {
		return value, nil, err
	}
	made := &resource{value: value, close: end}
	if got := r.acquireOrAdd(key, made); got != made { // somebody else has made one meanwhile
		return got.value.(T), closeBoth(end, release), nil
	}
	return value, release, nil
}

// acquireOrAdd counts one more user of the resource that is there, or else of a new one.
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

// closeBoth ends two things, in this order.
func closeBoth(first, second func() error) func() error {
	return func() error { return errors.Join(first(), second()) }
}

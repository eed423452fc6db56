package memstore

import (
	"context"
	"slices"
	"sync"

	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// Results stores evaluation results in process memory, by app in the order in which they were
// stored.
type Results struct {
	mu     sync.Mutex
	closed bool
	apps   map[string][]*store.Result
}

// NewResults returns a backend without results.
func NewResults() *Results { return &Results{apps: map[string][]*store.Result{}} }

// PutResult implements [store.ResultBackend].
func (m *Results) PutResult(_ context.Context, r *store.Result, keep int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	all := slices.DeleteFunc(m.apps[r.App], func(old *store.Result) bool { return old.ID == r.ID })
	all = append(all, r)
	slices.SortStableFunc(all, func(a, b *store.Result) int { return a.Stored.Compare(b.Stored) })
	m.apps[r.App] = all[max(0, len(all)-keep):]
	return nil
}

// GetResult implements [store.ResultBackend].
func (m *Results) GetResult(_ context.Context, app, id string) (*store.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	for _, r := range m.apps[app] {
		if r.ID == id {
			return r, nil
		}
	}
	return nil, backend.ResultNotFound(app, id)
}

// ListResults implements [store.ResultBackend].
func (m *Results) ListResults(_ context.Context, app string) ([]*store.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	var all []*store.Result
	for _, r := range slices.Backward(m.apps[app]) {
		listed := *r
		listed.Content = nil
		all = append(all, &listed)
	}
	return all, nil
}

// DeleteResult implements [store.ResultBackend].
func (m *Results) DeleteResult(_ context.Context, app, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	m.apps[app] = slices.DeleteFunc(m.apps[app], func(r *store.Result) bool { return r.ID == id })
	return nil
}

// Close closes the backend.
func (m *Results) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.apps)
	return nil
}

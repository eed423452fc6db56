package memstore

import (
	"context"
	"slices"
	"sync"

	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// Revisions stores revisions in process memory, by app in the order in which they served.
type Revisions struct {
	mu     sync.Mutex
	closed bool
	apps   map[string][]*store.RevisionRecord
}

// NewRevisions returns a backend without revisions.
func NewRevisions() *Revisions {
	return &Revisions{apps: map[string][]*store.RevisionRecord{}}
}

// PutRevision implements [store.RevisionBackend].
func (m *Revisions) PutRevision(_ context.Context, rev *store.RevisionRecord, keep int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	all, newest := m.apps[rev.App], &store.RevisionRecord{}
	if n := len(all); n > 0 {
		newest = all[n-1]
	}
	if newest.ID == rev.ID {
		return nil
	}
	rev.Served = store.NextServedTime(newest.Served, rev.Served)
	all = slices.DeleteFunc(all, func(old *store.RevisionRecord) bool { return old.ID == rev.ID })
	all = append(all, rev)
	m.apps[rev.App] = all[max(0, len(all)-keep):]
	return nil
}

// GetRevision implements [store.RevisionBackend].
func (m *Revisions) GetRevision(ctx context.Context, app, id string) (*store.RevisionRecord, error) {
	all, err := m.ListRevisions(ctx, app)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(rev *store.RevisionRecord) bool { return rev.ID == id })
	if i < 0 {
		return nil, backend.RevisionNotFound(app, id)
	}
	return all[i], nil
}

// ListRevisions implements [store.RevisionBackend].
func (m *Revisions) ListRevisions(_ context.Context, app string) ([]*store.RevisionRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	all := slices.Clone(m.apps[app])
	slices.Reverse(all)
	return all, nil
}

// Close closes the backend.
func (m *Revisions) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.apps)
	return nil
}

package memstore

import (
	"context"
	"sync"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Artifacts stores artifacts in process memory.
type Artifacts struct {
	mu     sync.RWMutex
	closed bool
	all    map[store.ArtifactKey][]*store.ArtifactRecord
}

// NewArtifacts returns a backend without artifacts.
func NewArtifacts() *Artifacts {
	return &Artifacts{all: map[store.ArtifactKey][]*store.ArtifactRecord{}}
}

// SaveVersion implements [store.ArtifactBackend].
func (m *Artifacts) SaveVersion(_ context.Context, at store.ArtifactKey, rec *store.ArtifactRecord) (session.ArtifactVersion, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return session.ArtifactVersion{}, store.ErrClosed
	}
	m.all[at] = append(m.all[at], rec)
	n := len(m.all[at]) - 1
	return rec.DescribeVersion(n, at.VersionURI("memory", n)), nil
}

// LoadVersion implements [store.ArtifactBackend].
func (m *Artifacts) LoadVersion(_ context.Context, at store.ArtifactKey, version int) (*store.ArtifactRecord, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	versions := m.all[at]
	if len(versions) == 0 || version >= len(versions) {
		return nil, at.NotFound(version)
	}
	if version < 0 {
		version = len(versions) - 1
	}
	return versions[version], nil
}

// ListNames implements [store.ArtifactBackend].
func (m *Artifacts) ListNames(_ context.Context, app, user, id string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	var names []string
	for at := range m.all {
		if at.App == app && at.User == user && at.Session == id {
			names = append(names, at.Name)
		}
	}
	return names, nil
}

// ListVersions implements [store.ArtifactBackend].
func (m *Artifacts) ListVersions(_ context.Context, at store.ArtifactKey) ([]session.ArtifactVersion, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	var all []session.ArtifactVersion
	for i, rec := range m.all[at] {
		all = append(all, rec.DescribeVersion(i, at.VersionURI("memory", i)))
	}
	return all, nil
}

// DeleteArtifact implements [store.ArtifactBackend].
func (m *Artifacts) DeleteArtifact(_ context.Context, at store.ArtifactKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	delete(m.all, at)
	return nil
}

// Ping implements [store.ArtifactBackend].
func (m *Artifacts) Ping(context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return store.ErrClosed
	}
	return nil
}

// Close closes the backend.
func (m *Artifacts) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.all)
	return nil
}

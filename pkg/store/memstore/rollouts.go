package memstore

import (
	"bytes"
	"context"

	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// GetRollout implements [store.RolloutBackend].
func (m *Sessions) GetRollout(_ context.Context, app string) (*store.Rollout, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, store.ErrClosed
	}
	stored, ok := m.rollouts[app]
	if !ok {
		return nil, backend.RolloutNotFound(app)
	}
	stored.Data = bytes.Clone(stored.Data)
	return &stored, nil
}

// SaveRollout implements [store.RolloutBackend].
func (m *Sessions) SaveRollout(_ context.Context, r *store.RolloutRecord) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return store.ErrClosed
	}
	if now := m.rollouts[r.App].Version; now != r.Version-1 {
		return backend.RolloutStale(r.App, r.Version-1, now)
	}
	m.rollouts[r.App] = r.Rollout
	return nil
}

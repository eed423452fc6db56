package connection

import (
	"context"
	"sync"
	"time"
)

// MemoryGrants is a [GrantStore] in the memory of the process. The zero value is empty.
type MemoryGrants struct {
	mu  sync.Mutex
	all map[string]Grant
}

// GetGrant implements [GrantStore].
func (m *MemoryGrants) GetGrant(_ context.Context, id string) (*Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row, ok := m.all[id]; ok {
		return &row, nil
	}
	return nil, nil
}

// SwapGrant implements [GrantStore].
func (m *MemoryGrants) SwapGrant(_ context.Context, g *Grant) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[g.ID].Version != g.Version-1 {
		return false, nil
	}
	if m.all == nil {
		m.all = map[string]Grant{}
	}
	m.all[g.ID] = *g
	return true, nil
}

// DeleteGrant implements [GrantStore].
func (m *MemoryGrants) DeleteGrant(_ context.Context, id string, version int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row, ok := m.all[id]; !ok || row.Version != version {
		return false, nil
	}
	delete(m.all, id)
	return true, nil
}

// DeleteExpired implements [GrantStore].
func (m *MemoryGrants) DeleteExpired(_ context.Context, before time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, row := range m.all {
		if !row.Expires.IsZero() && row.Expires.Before(before) {
			delete(m.all, id)
		}
	}
	return nil
}

package connection

import (
	"context"
	"sync"
	"time"
)

// A Grant is a row of a [GrantStore]: a user's tokens for a connection, or a consent that was
// requested and has no answer yet.
type Grant struct {
	// ID is at most 64 characters. A consent's ID is the hash of its state.
	ID         string
	User       User
	Connection string
	// Version is 1 for a new row, and 1 more after each change.
	Version int64
	// BusyUntil is when other replicas may renew the tokens, if the replica that does so now
	// has ended; zero if none does.
	BusyUntil time.Time
	// Expires is when a consent expires; zero for tokens.
	Expires time.Time
	// Sealed is the encrypted content.
	Sealed []byte
}

// A GrantStore stores grants for all replicas of a host. It is safe for concurrent use.
type GrantStore interface {
	// GetGrant returns the row, or nil if there is none.
	GetGrant(ctx context.Context, id string) (*Grant, error)
	// SwapGrant stores a row, and reports true, if the stored version is one less than its
	// version. A row with version 1 requires that there is none.
	SwapGrant(ctx context.Context, g *Grant) (bool, error)
	// DeleteGrant deletes the row if it has this version, and reports whether it did.
	DeleteGrant(ctx context.Context, id string, version int64) (bool, error)
	// DeleteExpired deletes the consents that expired before a time.
	DeleteExpired(ctx context.Context, before time.Time) error
}

// MemoryGrants is a [GrantStore] in the process's memory. The zero value is empty.
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

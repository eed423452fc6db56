package store

import (
	"context"
	"time"
)

// memLease is the lease of a session in memory.
type memLease struct {
	owner string
	epoch int64
	until time.Time
}

func (m *memBackend) acquireLease(_ context.Context, g *grant) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return "", errClosed
	}
	s, ok := m.sessions[g.key]
	if !ok {
		return "", errNotFound(g.key.ID)
	}
	if s.lease.until.After(g.now) && s.lease.owner != g.owner {
		return s.lease.owner, nil
	}
	s.grantLease(g)
	return "", nil
}

// grantLease leases a session. The caller holds the lock.
func (s *memSession) grantLease(g *grant) {
	s.lease = memLease{g.owner, s.lease.epoch + 1, g.now.Add(g.term)}
	g.id, g.epoch = s.id, s.lease.epoch
}

func (m *memBackend) renewLeases(_ context.Context, all []*grant) ([]*grant, error) {
	return m.setLeaseEnds(all, func(g *grant) time.Time { return g.now.Add(g.term) })
}

func (m *memBackend) releaseLeases(_ context.Context, all []*grant) error {
	_, err := m.setLeaseEnds(all, func(*grant) time.Time { return time.Time{} })
	return err
}

// setLeaseEnds sets the expiry of grants, and returns the lost ones.
func (m *memBackend) setLeaseEnds(all []*grant, until func(*grant) time.Time) ([]*grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	var gone []*grant
	for _, g := range all {
		if s := m.sessions[g.key]; s != nil && s.id == g.id && s.lease.epoch == g.epoch {
			s.lease.until = until(g)
		} else {
			gone = append(gone, g)
		}
	}
	return gone, nil
}
